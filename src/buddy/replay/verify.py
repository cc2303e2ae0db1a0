"""Running a recorded session again, in memory: the same session code with recorded inputs.

Invariants: nothing is done to the world; each process of the recording is replayed by itself, and what came before it
is taken as it was recorded.
"""

import asyncio
import os
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import suppress

from msgspec import Struct

from buddy.backends.contract import Backend, Run
from buddy.backends.native.loop import Native
from buddy.backends.native.prompt import PromptSettings
from buddy.errors import LogError, ProtocolError, UserError
from buddy.models.contract import Provider
from buddy.protocol.envelopes import Event
from buddy.protocol.events import ApprovalRequired, EventBody, RunStarted, SessionStarted
from buddy.replay.external_inputs import ids_in, inputs_in
from buddy.replay.process_spans import ProcessSpan, spans_of
from buddy.replay.recorded_calls import calls_in, tiers_in
from buddy.replay.recorded_model import RecordedProvider
from buddy.replay.recorded_target import RecordedTarget
from buddy.replay.recorded_text import RecordedScrubber, open_streams
from buddy.replay.recorded_tools import RecordedPermissions, RecordedTools
from buddy.replay.replay_cursor import ReplayCursor
from buddy.replay.replay_log import Difference, ReplayLog, excerpt
from buddy.replay.virtual_loop import Stalled, VirtualLoop
from buddy.sessions.fork import Entry
from buddy.sessions.services import SessionServices
from buddy.sessions.session import Session
from buddy.sessions.spill import restore_spilled
from buddy.sessions.state import SessionFold
from buddy.tools.contract import Place
from buddy.tools.registry import Definition
from buddy.tools.source import FixedSource


class Recording(Struct, frozen=True):
    """All events of a session, and the long texts that are stored separately."""

    events: tuple[Event, ...]
    blobs: Mapping[str, bytes]


class Verdict(Struct, frozen=True):
    """How many events were the same, and the first difference."""

    compared: int
    difference: Difference | None = None


def verify(recording: Recording, settings: PromptSettings | None = None, specs: tuple[Definition, ...] = ()) -> Verdict:
    """Replay and compare; UserError where the log does not hold what that takes. Not inside an event loop.

    `settings` and the `specs` of the tools are what prompts are made of: only with the same ones is the history
    compacted at the same moment.
    """
    if not recording.events or recording.events[0].seq != 1:
        raise UserError("the beginning of this session was pruned, so it cannot be replayed")
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        entries = runner.run(_full_entries(recording))
    spans = spans_of(entries)
    _check_recorded(entries, spans)
    fixed = _Fixed(recording.blobs, settings or PromptSettings(), specs)
    compared = 0
    for span in spans:
        verdict = _verify_span(entries, span, fixed)
        compared += verdict.compared
        if verdict.difference is not None:
            return Verdict(compared, verdict.difference)
    return Verdict(compared)


class _Fixed(Struct, frozen=True):
    """What is the same in all spans: the stored texts, and what prompts are made of."""

    blobs: Mapping[str, bytes]
    settings: PromptSettings
    specs: tuple[Definition, ...]


async def _full_entries(recording: Recording) -> list[Entry]:
    async def read(blob: str) -> bytes | None:
        return recording.blobs.get(blob)

    return [(event, await restore_spilled(event, read)) for event in recording.events]


def _check_recorded(entries: Sequence[Entry], spans: Sequence[ProcessSpan]) -> None:
    first = spans[0].first if spans else 1
    for event, body in entries:
        if event.seq >= first and isinstance(body, RunStarted) and body.recording is None:
            raise UserError(
                f"the run at seq {event.seq} was recorded by an earlier version of Buddy, without what verifying needs",
                hint="`buddy replay` without --verify still shows it",
            )


def _verify_span(entries: Sequence[Entry], span: ProcessSpan, fixed: _Fixed) -> Verdict:
    cursor = ReplayCursor(entries)
    log = ReplayLog(cursor, span, entries[0][0].session_id)
    runner = asyncio.Runner(loop_factory=VirtualLoop)
    with suppress(Stalled):
        runner.run(_Player(cursor, log, entries, span, fixed).play())
    _close(runner)
    if log.difference is not None:
        return Verdict(log.compared, log.difference)
    missing = cursor.at(span.first + log.compared) if span.first + log.compared <= span.last else None
    if missing is not None:
        message = f"seq {missing[0].seq}: nothing more happens"
        return Verdict(log.compared, Difference(message, excerpt(missing[0]), "nothing"))
    return Verdict(log.compared)


def _close(runner: asyncio.Runner) -> None:
    """What is left of a span waits forever on purpose; it is dropped."""
    try:
        runner.close()
    except Stalled:
        runner.get_loop().close()


class _Player:
    """Replays one span."""

    def __init__(
        self,
        cursor: ReplayCursor,
        log: ReplayLog,
        entries: Sequence[Entry],
        span: ProcessSpan,
        fixed: "_Fixed",
    ) -> None:
        self._cursor = cursor
        self._log = log
        self._entries = entries
        self._span = span
        self._fixed = fixed
        self._calls = calls_in(entries)
        self._started = next((body for _, body in entries if isinstance(body, SessionStarted)), None)

    async def play(self) -> None:
        cursor, span = self._cursor, self._span
        session = await self._open()
        inputs = inputs_in(self._entries, span)
        cursor.expect([given.gate for given in inputs])
        loop = asyncio.get_running_loop()
        tasks = [loop.create_task(_tolerant(session.runs.recover()))] if span.first > 1 else []
        for given in inputs:
            await cursor.wait_reached(given.gate)
            # Not awaited: a client does not wait for the answer to another one. Its first step comes before whatever
            # waits for it to begin.
            tasks.append(loop.create_task(_tolerant(given.act(session))))
            cursor.begin()
        while cursor.reached < span.last and self._log.difference is None and not self._log.is_over:
            await cursor.wait_change()
        if span.is_complete:
            await asyncio.gather(*tasks)
            await session.runs.wait_idle()  # one event too many is a difference, too
        session.broken = True
        await session.abandon()

    async def _open(self) -> Session:
        """The session as it was when this span began."""
        span = self._span
        earlier = [(event, body) for event, body in self._entries if event.seq < span.first]
        lease = await self._log.fill(earlier)
        backend, fold = self._backend(), SessionFold()
        for event, body in earlier:
            if body is not None:
                fold.apply(event, body)
                backend.observe(event.seq, body)
        place = Place(RecordedTarget(span.target, self._cursor), self._root(), span.sandbox)
        return Session(self._services(), lease, place, backend, fold, span.first - 1)

    def _backend(self) -> Backend:
        cursor, started = self._cursor, self._started
        runtime = started.options.agent_runtime if started and started.options else None
        if started is None or runtime in (None, "native"):
            fixed = self._fixed
            tools = RecordedTools(cursor, self._calls, tiers_in(self._entries), fixed.blobs, fixed.specs)
            return _RecordedNative(cursor, tools, fixed.settings)
        from buddy.replay.recorded_agent import RecordedExternal

        return RecordedExternal(runtime, started.session_id, cursor)

    def _services(self) -> SessionServices:
        root, calls = self._root(), self._calls
        return SessionServices(
            self._log,
            self._cursor.clock,
            ids_in(self._entries, self._span),
            RecordedScrubber(self._cursor),
            approval_timeout=self._approval_timeout(),
            permissions=lambda _: RecordedPermissions(root, calls),
            merge_seconds=0.0,
        )

    def _approval_timeout(self) -> float:
        for event, body in self._entries:
            if isinstance(body, ApprovalRequired):
                return max(0.001, (body.expires_at - event.ts) / 1000)
        return 300.0

    def _root(self) -> str:
        started = self._started
        return os.path.realpath(started.repo.root_path if started and started.repo else ".")


async def _tolerant(work: Awaitable[object]) -> None:
    """A refusal shows as a difference: what was recorded does not happen."""
    with suppress(ProtocolError, LogError):
        await work


class _RecordedNative(Native):
    """The turn loop itself, with a recorded model and recorded tools; what it observes was replayed."""

    def __init__(self, cursor: ReplayCursor, tools: RecordedTools, settings: PromptSettings) -> None:
        chosen: list[Provider] = []

        def choose(profile: str | None, model: str | None) -> Provider:
            del profile, model
            chosen.append(RecordedProvider(cursor, switched=bool(chosen)))
            return chosen[-1]

        super().__init__(choose, FixedSource(tools), cursor.had_room, settings)
        self._cursor = cursor

    async def execute(self, run: Run) -> None:
        with open_streams(run, self._cursor):
            await super().execute(run)

    def observe(self, seq: int, body: EventBody) -> None:
        super().observe(seq, body)
        self._cursor.advance(seq)
