"""Running a recorded session again, in memory: the same session code with recorded inputs.

Invariants: nothing is done to the world; each process of the recording is replayed by itself, and what came before it
is taken as it was recorded.
"""

import asyncio
import math
import os
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial

from msgspec import Struct

from buddy.backends.contract import Backend
from buddy.backends.native.dispatch import Dispatch
from buddy.backends.native.loop import Native
from buddy.backends.native.prompt import PromptSettings
from buddy.errors import LogError, ProtocolError, UserError
from buddy.models.contract import Provider
from buddy.protocol.basics import NO_EXPIRY
from buddy.protocol.blobs import restore_body
from buddy.protocol.events import ApprovalRequired, EventBody, RunStarted, SessionStarted
from buddy.replay.recorded_day_limit import RecordedDayLimit
from buddy.replay.recorded_hooks import RecordedHooks
from buddy.replay.recorded_model import RecordedProvider, RecordedScrubber
from buddy.replay.recorded_tools import (
    RecordedDispatch,
    RecordedPermissions,
    RecordedSource,
    RecordedTarget,
    RecordedTools,
)
from buddy.replay.recording import ProcessSpan, Recording, ReplayCursor, spans_of
from buddy.replay.replay_log import Difference, ReplayLog, excerpt
from buddy.replay.requests import ids_for, recorded_expansion, requests_in
from buddy.replay.virtual_loop import Stalled, VirtualLoop
from buddy.sessions.fork import Entry
from buddy.sessions.services import SessionServices
from buddy.sessions.session import Session
from buddy.sessions.state import SessionFold
from buddy.tools.contract import Place
from buddy.tools.registry import Definition, Registry

EXPIRY_ENDS_RUN = 2
"""The first version of a recording in which an expired approval ends its run."""

CreateBackend = Callable[[ReplayCursor], Backend]
CreateDispatch = Callable[[Registry, Callable[[], bool]], Dispatch]


class Verdict(Struct, frozen=True):
    """How many events were the same, and the first difference."""

    compared: int
    difference: Difference | None = None


def verify(recording: Recording, settings: PromptSettings | None = None, specs: tuple[Definition, ...] = ()) -> Verdict:
    """Replay and compare; UserError if the recording lacks what that needs. Not inside an event loop.

    Prompts are built from `settings` and the `specs` of the tools: only with the same ones is the history compacted at
    the same moment.
    """
    if not recording.events or recording.events[0].seq != 1:
        raise UserError("the beginning of this session was pruned, so it cannot be replayed")
    entries = [(event, restore_body(event, recording.blobs)) for event in recording.events]
    spans = spans_of(entries)
    _check_recorded(entries, spans)

    def create_native(cursor: ReplayCursor) -> Backend:
        dispatch = partial(RecordedDispatch, cursor, recording.blobs)
        return _RecordedNative(cursor, RecordedTools(entries, specs), settings or PromptSettings(), dispatch)

    compared = 0
    for span in spans:
        verdict = _verify_span(entries, span, create_native)
        compared += verdict.compared
        if verdict.difference is not None:
            return Verdict(compared, verdict.difference)
    return Verdict(compared)


def _check_recorded(entries: Sequence[Entry], spans: Sequence[ProcessSpan]) -> None:
    first = spans[0].first if spans else 1
    for event, body in entries:
        if event.seq >= first and isinstance(body, RunStarted) and body.recording is None:
            raise UserError(
                f"the run at seq {event.seq} was recorded by an earlier version of Buddy, without what verifying needs",
                hint="`buddy replay` without --verify still shows it",
            )


def _verify_span(entries: Sequence[Entry], span: ProcessSpan, create_native: CreateBackend) -> Verdict:
    player = _Player(entries, span, create_native)
    runner = asyncio.Runner(loop_factory=VirtualLoop)
    with suppress(Stalled):
        runner.run(player.play())
    try:
        runner.close()
    except Stalled:  # what is left of a span waits forever on purpose; it is dropped
        runner.get_loop().close()
    log, cursor = player.log, player.cursor
    missing = cursor.at(span.first + log.compared) if span.first + log.compared <= span.last else None
    if log.difference is None and missing is not None:
        message = f"seq {missing[0].seq}: nothing more happens"
        return Verdict(log.compared, Difference(message, excerpt(missing[0]), "nothing"))
    return Verdict(log.compared, log.difference)


class _Player:
    """Replays one span."""

    def __init__(self, entries: Sequence[Entry], span: ProcessSpan, create_native: CreateBackend) -> None:
        self.cursor = ReplayCursor(entries, span.first - 1)
        self.log = ReplayLog(self.cursor, span, entries[0][0].session_id)
        self._entries = entries
        self._span = span
        self._create_native = create_native
        self._is_streaming = False

    async def play(self) -> None:
        cursor, span = self.cursor, self._span
        session = await self._open()
        cursor.on_advance = partial(self._record_streamed, session)
        requests = requests_in(self._entries, span)
        cursor.expect([request.seq for request in requests])
        loop = asyncio.get_running_loop()
        tasks = [loop.create_task(_tolerant(session.runs.recover()))] if span.first > 1 else []
        for request in requests:
            await self._reach(request.seq - 1)
            if self.log.is_over:
                break
            # Not awaited: a client does not wait for the answer to another one. Its first step comes before whatever
            # waits for it to begin.
            tasks.append(loop.create_task(_tolerant(request.act(session))))
            cursor.begin()
        await self._reach(span.last)
        if span.is_complete and not self.log.is_over:
            await asyncio.gather(*tasks)
            await session.runs.wait_idle()  # one event too many is a difference, too
        session.broken = True
        await session.abandon()

    async def _reach(self, seq: int) -> None:
        while self.cursor.reached < seq and not self.log.is_over:
            await self.cursor.wait_change()

    def _record_streamed(self, session: Session) -> None:
        """Text that arrived piece by piece is recorded again at its place: nothing was decided about it."""
        if self._is_streaming:
            return  # the loop below continues
        self._is_streaming = True
        while (run := session.fold.run) is not None and (text := self.cursor.streamed(run)) is not None:
            session.journal.record(text, run.run_id)
        self._is_streaming = False

    async def _open(self) -> Session:
        """The session as it was when this span began."""
        span, run, fold = self._span, self.cursor.next(RunStarted), SessionFold()
        earlier = [(event, body) for event, body in self._entries if event.seq < span.first]
        lease = await self.log.fill(earlier)
        started = next((body for _, body in self._entries if isinstance(body, SessionStarted)), None)
        backend = self._backend(started)
        for event, body in earlier:
            if body is not None:
                fold.apply(event, body)
                backend.observe(event.seq, body)
        root = _root_of(started)
        target = RecordedTarget((run and run.options.target) or "local", self.cursor)
        place = Place(target, root, (run and run.options.sandbox) or "host")
        return Session(self._services(root), lease, place, backend, fold, span.first - 1)

    def _backend(self, started: SessionStarted | None) -> Backend:
        runtime = started.options.agent_runtime if started and started.options else None
        if started is None or runtime in (None, "native"):
            return self._create_native(self.cursor)
        from buddy.replay.recorded_agent import RecordedExternal

        return RecordedExternal(runtime, started.session_id, self.cursor)

    def _services(self, root: str) -> SessionServices:
        cursor = self.cursor
        return SessionServices(
            self.log,
            cursor.clock,
            ids_for(cursor),
            RecordedScrubber(),
            approval_timeout=self._approval_timeout(),
            expiry_ends_run=self._recording_version() >= EXPIRY_ENDS_RUN,
            permissions=lambda _: RecordedPermissions(root, cursor),
            hooks=lambda _session_id, _place: RecordedHooks(cursor),
            expand=partial(recorded_expansion, cursor),
            merge_seconds=0.0,
            day_limit=RecordedDayLimit(cursor),
            node=started.node if (started := cursor.next(RunStarted)) else None,
        )

    def _approval_timeout(self) -> float | None:
        for event, body in self._entries:
            if isinstance(body, ApprovalRequired):
                is_never = body.expires_at == NO_EXPIRY
                return math.inf if is_never else max(0.001, (body.expires_at - event.ts) / 1000)
        return None

    def _recording_version(self) -> int:
        """Of the first run in this span; one process records all of its runs alike."""
        started = self.cursor.next(RunStarted)
        return (started and started.recording) or 0


def _root_of(started: SessionStarted | None) -> str:
    return os.path.realpath(started.repo.root_path if started and started.repo else ".")


async def _tolerant(work: Awaitable[object]) -> None:
    """A refusal shows as a difference: what was recorded does not happen."""
    with suppress(ProtocolError, LogError):
        await work


class _RecordedNative(Native):
    """The turn loop itself, with a recorded model and recorded tools; what it observes was replayed."""

    def __init__(
        self, cursor: ReplayCursor, tools: RecordedTools, settings: PromptSettings, dispatch: CreateDispatch
    ) -> None:
        chosen: list[Provider] = []

        def choose(profile: str | None, model: str | None) -> Provider:
            del profile, model
            chosen.append(RecordedProvider(cursor, switched=bool(chosen)))
            return chosen[-1]

        super().__init__(choose, RecordedSource(tools, cursor), cursor.has_room, settings, dispatch=dispatch)
        self._cursor = cursor

    def observe(self, seq: int, body: EventBody) -> None:
        super().observe(seq, body)
        self._cursor.advance(seq)
