"""Playing a recorded session again: the same backend with the recorded model or agent, tools and decisions, in memory.

What always holds: nothing is done to the world; every event of the recording is compared with the one that came again,
in type, run, order, seq and payload. What is measured is not compared: times, and the estimated size of a prompt, which
depends on notes and tools that are not part of a log. Digests are compared by what they distinguish.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import Struct

from buddy.backends.contract import Backend, Run
from buddy.backends.native.loop import Native
from buddy.backends.native.prompt import PromptSettings
from buddy.errors import LogError, ProtocolError, UserError
from buddy.log.contract import ApprovalRecord, Batch, Claim, Decision, Lease, SessionRecord
from buddy.log.memory import MemoryLog
from buddy.models.contract import Provider
from buddy.protocol.envelopes import Event
from buddy.protocol.events import (
    ApprovalExpired,
    ApprovalReceived,
    ApprovalRequired,
    EventBody,
    SessionStarted,
    ToolClaimed,
)
from buddy.protocol.shapes import Repo
from buddy.replay.process_spans import ProcessSpan, ids_in, inputs_of, spans_of
from buddy.replay.recorded_model import RecordedProvider, trailing
from buddy.replay.recorded_tools import (
    RecordedCall,
    RecordedPermissions,
    RecordedTarget,
    RecordedTools,
    calls_in,
    had_room,
)
from buddy.replay.replay_cursor import ReplayCursor
from buddy.replay.virtual_loop import Stalled, VirtualLoop
from buddy.scrub import Scrubber, Stream
from buddy.sessions.fork import Entry
from buddy.sessions.session import Session, Surroundings
from buddy.sessions.spill import whole_body
from buddy.sessions.state import SessionFold
from buddy.tools.contract import Place
from buddy.tools.registry import Definition
from buddy.tools.source import FixedSource

OWNER = "replay"
SHOWN = 600


class Recording(Struct, frozen=True):
    """All events of a session, and the long texts that were kept beside them."""

    events: tuple[Event, ...]
    blobs: Mapping[str, bytes]


class Difference(Struct, frozen=True):
    told: str
    recorded: str
    replayed: str


class Verdict(Struct, frozen=True):
    """How many events came again as they were, and the first that did not."""

    compared: int
    difference: Difference | None = None


def verify(recording: Recording, settings: PromptSettings | None = None, specs: tuple[Definition, ...] = ()) -> Verdict:
    """Play it again and compare; UserError where the log has no beginning any more. Not inside an event loop.

    `settings` and the `specs` of the tools are what prompts are made of: only with the same ones is the history
    shortened at the same moment.
    """
    if not recording.events or recording.events[0].seq != 1:
        raise UserError("the beginning of this session was pruned, so it cannot be played again")
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        entries = runner.run(_whole(recording))
    world = _World(recording.blobs, settings or PromptSettings(), specs)
    compared = 0
    for span in spans_of(entries):
        verdict = _verify_span(entries, span, world)
        compared += verdict.compared
        if verdict.difference is not None:
            return Verdict(compared, verdict.difference)
    return Verdict(compared)


async def _whole(recording: Recording) -> list[Entry]:
    async def read(blob: str) -> bytes | None:
        return recording.blobs.get(blob)

    return [(event, await whole_body(event, read)) for event in recording.events]


def _verify_span(entries: Sequence[Entry], span: ProcessSpan, world: "_World") -> Verdict:
    """A span by itself: what came before it is taken as it was recorded."""
    cursor = ReplayCursor(entries)
    log = _ReplayLog(cursor, span, entries[0][0].session_id)
    runner = asyncio.Runner(loop_factory=VirtualLoop)
    with suppress(Stalled):
        runner.run(_Player(cursor, log, entries, span, world).play())
    _close(runner)
    if log.difference is not None:
        return Verdict(log.judged, log.difference)
    missing = cursor.at(span.first + log.judged) if span.first + log.judged <= span.last else None
    if missing is not None:
        told = f"seq {missing[0].seq}: nothing more happens"
        return Verdict(log.judged, Difference(told, _shown(missing[0]), "nothing"))
    return Verdict(log.judged)


def _close(runner: asyncio.Runner) -> None:
    """What is left of a span hangs for ever on purpose, so it is ended and no more is asked of it."""
    try:
        runner.close()
    except Stalled:
        runner.get_loop().close()


class _World(Struct, frozen=True):
    """What is the same in all spans: the kept texts, and what prompts are made of."""

    blobs: Mapping[str, bytes]
    settings: PromptSettings
    specs: tuple[Definition, ...]


class _Player:
    """One span, played again."""

    def __init__(
        self, cursor: ReplayCursor, log: "_ReplayLog", entries: Sequence[Entry], span: ProcessSpan, world: _World
    ) -> None:
        self._cursor = cursor
        self._log = log
        self._entries = entries
        self._span = span
        self._world = world

    async def play(self) -> None:
        cursor, span = self._cursor, self._span
        session = await self._open()
        inputs = inputs_of(self._entries, span)
        cursor.expect([given.gate for given in inputs])
        loop = asyncio.get_running_loop()
        under_way = [loop.create_task(_tolerant(session.recover()))] if span.first > 1 else []
        for given in inputs:
            await cursor.wait_reached(given.gate)
            # Not awaited, as in span: the next client does not wait for this one's answer. Its first step comes before
            # whoever waits for it to begin.
            under_way.append(loop.create_task(_tolerant(given.act(session))))
            cursor.begin()
        while cursor.reached < span.last and self._log.difference is None and not self._log.is_over:
            await cursor.wait_change()
        if span.is_complete:
            await asyncio.gather(*under_way)
            await session.wait_idle()  # one event too many is a difference, too
        session.broken = True
        await session.abandon()

    async def _open(self) -> Session:
        """The session as it was when this span began."""
        cursor, span = self._cursor, self._span
        before = [(event, body) for event, body in self._entries if event.seq < span.first]
        lease = await self._log.prepare(before)
        calls = calls_in(self._entries)
        around = self._surroundings(calls)
        backend = self._backend(calls)
        fold = SessionFold()
        for event, body in before:
            if body is not None:
                fold.apply(event, body)
                backend.observe(event.seq, body)
        place = Place(RecordedTarget(span.target, cursor), self._root(), span.sandbox)
        return Session(around, lease, place, backend, fold, span.first - 1)

    def _backend(self, calls: Mapping[str, RecordedCall]) -> Backend:
        cursor, world = self._cursor, self._world
        started = self._started()
        runtime = started.options.agent_runtime if started and started.options else None
        if started is None or runtime in (None, "native"):
            return _backend(cursor, RecordedTools(cursor, calls, world.blobs, world.specs), world.settings)
        from buddy.replay.recorded_agent import RecordedExternal

        return RecordedExternal(runtime, started.session_id, cursor, world.blobs)

    def _surroundings(self, calls: Mapping[str, RecordedCall]) -> Surroundings:
        root = self._root()
        return Surroundings(
            self._log,
            self._cursor.clock,
            ids_in(self._entries, self._span),
            _Clean(self._cursor),
            approval_timeout=self._approval_timeout(),
            permissions=lambda _: RecordedPermissions(root, calls),
            merge_seconds=0.0,
        )

    def _approval_timeout(self) -> float:
        for event, body in self._entries:
            if isinstance(body, ApprovalRequired):
                return max(0.001, (body.expires_at - event.ts) / 1000)
        return 300.0

    def _started(self) -> SessionStarted | None:
        return next((body for _, body in self._entries if isinstance(body, SessionStarted)), None)

    def _root(self) -> str:
        started = self._started()
        return os.path.realpath(started.repo.root_path if started and started.repo else ".")


async def _tolerant(work: Awaitable[object]) -> None:
    """A refusal is seen by its difference: what was recorded does not come again."""
    with suppress(ProtocolError, LogError):
        await work


def _backend(cursor: ReplayCursor, tools: RecordedTools, settings: PromptSettings) -> Native:
    chosen: list[Provider] = []

    def choose(profile: str | None, model: str | None) -> Provider:
        del profile, model
        chosen.append(RecordedProvider(cursor, switched=bool(chosen)))
        return chosen[-1]

    return _Observed(cursor, choose, tools, settings)


class _Observed(Native):
    """The loop itself; what it is told of was recorded again."""

    def __init__(
        self,
        cursor: ReplayCursor,
        choose: Callable[[str | None, str | None], Provider],
        tools: RecordedTools,
        settings: PromptSettings,
    ) -> None:
        super().__init__(choose, FixedSource(tools), lambda: had_room(cursor), settings)
        self._cursor = cursor

    async def execute(self, run: Run) -> None:
        try:
            await super().execute(run)
        except asyncio.CancelledError:
            # The cancel may come before the model's first piece now: what was held back of it came after the cancel.
            for kind in trailing(self._cursor, self._cursor.reached):
                run.stream(kind, "")
            raise

    def observe(self, seq: int, body: EventBody) -> None:
        super().observe(seq, body)
        self._cursor.advance(seq)


class _ReplayLog(MemoryLog):
    """A log that takes only what was recorded."""

    def __init__(self, cursor: ReplayCursor, span: ProcessSpan, session_id: str) -> None:
        super().__init__(cursor.clock)
        self.difference: Difference | None = None
        self.is_over = False
        self.judged = 0
        self._cursor = cursor
        self._span = span
        self._session_id = session_id
        self._digests: dict[str, str] = {}

    async def prepare(self, before: Sequence[Entry]) -> Lease:
        """Put in what came before this span, with the rows that belong to it."""
        record = SessionRecord(self._session_id, Repo("."), "interactive", "idle", 0, 0, 1, 0)
        lease = await self.create(record, OWNER)
        pending: set[str] = set()
        for event, body in before:
            approval = decision = claim = None
            match body:
                case ApprovalRequired():
                    approval = ApprovalRecord(
                        body.approval_id, event.run_id or "", body.call_id or "", body.digest or "", body.expires_at
                    )
                    pending.add(body.approval_id)
                case ApprovalReceived() if body.approval_id in pending:
                    pending.discard(body.approval_id)
                    decision = Decision(body.approval_id, body.decision, body.by)
                case ApprovalExpired() if body.approval_id in pending:
                    pending.discard(body.approval_id)
                    decision = Decision(body.approval_id, "expired", "timeout")
                case ToolClaimed():
                    claim = Claim(f"{event.run_id}/{body.call_id}", body.attempt, body.digest)
                case _:
                    pass
            batch = Batch(
                self._session_id, 1, event.seq - 1, [event], approval=approval, decision=decision, claim=claim
            )
            await super().append(batch)
        return lease

    async def append(self, batch: Batch) -> int:
        for event in batch.events:
            self._judge(event)
        last_seq = await super().append(batch)
        await self._cursor.wait_settled()
        await self._cursor.wait_heartbeats()
        return last_seq

    def _judge(self, event: Event) -> None:
        if event.seq > self._span.last and not self._span.is_complete:
            self.is_over = True
            self._cursor.notify()
            raise LogError("the recording ends here")
        recorded = self._cursor.at(event.seq)
        told = self._compare(recorded[0], event) if recorded else f"seq {event.seq}: one more than was recorded"
        if told is not None:
            self.difference = Difference(told, _shown(recorded[0]) if recorded else "nothing", _shown(event))
            self._cursor.notify()
            raise LogError(told)
        self.judged += 1

    def _compare(self, recorded: Event, replayed: Event) -> str | None:
        """What is different, in words; None where nothing is."""
        seq = recorded.seq
        if recorded.type != replayed.type:
            return f"seq {seq}: {replayed.type} instead of {recorded.type}"
        if recorded.run_id != replayed.run_id:
            return f"seq {seq}: {recorded.type} belongs to another run"
        theirs, ours = self._plain(recorded), self._plain(replayed)
        if self._digests.setdefault(theirs.pop("digest", ""), ours.get("digest", "")) != ours.pop("digest", ""):
            return f"seq {seq}: {recorded.type} is about something else (another digest)"
        keys = [key for key in {**theirs, **ours} if theirs.get(key) != ours.get(key)]
        return f"seq {seq}: {recorded.type} differs in {', '.join(keys)}" if keys else None

    def _plain(self, event: Event) -> dict[str, Any]:
        tree: dict[str, Any] = msgspec.json.decode(event.payload)
        for key in _MEASURED.get(event.type, ()):
            tree.pop(key, None)
        match event.type:
            case "usage":
                tree["budget"].pop("seconds", None)
            case "progress":
                # A heartbeat says how long it has been.
                tree["message"] = tree["message"].partition(" (")[0]
                tree.pop("elapsedSeconds", None)
            case "error" if tree.get("code") == "INTERNAL_ERROR":
                tree.pop("detail", None)
            case _:
                pass
        return tree


_MEASURED = {
    "tool_result": ("durationMs",),
    "phase": ("durationMs",),
    "approval_required": ("expiresAt",),
    "approval_policy_changed": ("expiresAt",),
    "model_request": ("reservedTokens", "reservedCostUsd"),
    "usage": ("context", "estimated"),
    "session_compacted": ("beforeTokens", "afterTokens"),
}


class _Clean(Scrubber):
    """Nothing is hidden: what was recorded is clean."""

    def __init__(self, cursor: ReplayCursor) -> None:
        super().__init__()
        self._cursor = cursor

    def text(self, text: str) -> str:
        return text

    def registered(self, text: str) -> str:
        return text

    def tree(self, value: Any) -> Any:
        return value

    def stream(self) -> Stream:
        return _CleanStream(self._cursor)


class _CleanStream(Stream):
    """A running text of which nothing is held back, but for what only came out when it was over."""

    def __init__(self, cursor: ReplayCursor) -> None:
        self._cursor = cursor

    def feed(self, text: str) -> str:
        return text

    def give_way(self) -> str:
        return ""

    def finish(self) -> str:
        entry = self._cursor.at(self._cursor.reached + 1)
        if entry is None or entry[0].type not in ("assistant_token", "thinking_token", "tool_output"):
            return ""
        return str(msgspec.json.decode(entry[0].payload).get("text", ""))


def _shown(event: Event) -> str:
    text = f"{event.type} {bytes(event.payload).decode(errors='replace')}"
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"
