"""A recorded session while it is replayed: its events, the position reached, and what may happen next.

Invariants: nothing continues before everything that was recorded before it has happened; a client's request that is due
comes first.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NoReturn, TypeVar

from msgspec import Struct

from buddy.backends.runstate import RunState
from buddy.protocol.actors import RuntimeActor
from buddy.protocol.envelopes import Event
from buddy.protocol.events import (
    ApprovalExpired,
    ApprovalPolicyChanged,
    ApprovalReceived,
    ApprovalRequired,
    AssistantToken,
    ChildFinished,
    ChildStarted,
    Error,
    EventBody,
    QuestionAnswered,
    QuestionAsked,
    RunComplete,
    RunStarted,
    SessionForked,
    ThinkingToken,
    ToolCall,
    ToolClaimed,
    ToolOutput,
    ToolResult,
)
from buddy.protocol.file_events import FilesChanged
from buddy.sessions.fork import Entry

Body = TypeVar("Body", bound=EventBody)
MODEL = "model"
CallStep = ApprovalRequired | ApprovalReceived | ToolClaimed | ToolResult


class Recording(Struct, frozen=True):
    """All events of a session, and the long texts that are stored separately."""

    events: tuple[Event, ...]
    blobs: Mapping[str, bytes]


class ProcessSpan(Struct, frozen=True):
    """The events that one process recorded, from `first` to `last`; `is_complete`: no run was active at its end."""

    first: int
    last: int
    is_complete: bool


def spans_of(entries: Sequence[Entry]) -> list[ProcessSpan]:
    """A span begins where a process opened the session and found something to recover."""
    forks = [event.seq for event, body in entries if isinstance(body, SessionForked)]
    first = forks[-1] + 1 if forks else 1  # what a fork copied happened elsewhere
    starts = {first, *(_recovery_start(entries, at) for at, entry in enumerate(entries) if _is_restart(entry[1]))}
    starts = sorted(start for start in starts if start >= first)
    ends = [start - 1 for start in starts[1:]] + [entries[-1][0].seq]
    spans = zip(starts, ends, strict=True)
    return [ProcessSpan(start, end, _is_idle(entries, end)) for start, end in spans if start <= end]


def _is_restart(body: EventBody | None) -> bool:
    if isinstance(body, RunStarted):
        return body.recovered
    return _ends_window(body)


def _ends_window(body: EventBody | None) -> bool:
    return isinstance(body, ApprovalPolicyChanged) and body.by == RuntimeActor.RESTART


def _recovery_start(entries: Sequence[Entry], at: int) -> int:
    """A recovery begins with the approvals that expired meanwhile and the end of an approval window."""
    while at > 0 and (isinstance(before := entries[at - 1][1], ApprovalExpired) or _ends_window(before)):
        at -= 1
    return entries[at][0].seq


def _is_idle(entries: Sequence[Entry], last: int) -> bool:
    runs = [body for event, body in entries if event.seq <= last and isinstance(body, RunStarted | RunComplete)]
    return not runs or isinstance(runs[-1], RunComplete)


class ReplayCursor:
    """`reached` is the seq of the last event that was replayed; `on_advance` is called whenever it changes."""

    def __init__(self, entries: Sequence[Entry], reached: int = 0) -> None:
        self.reached = reached
        self.on_advance: Callable[[], None] = lambda: None
        self._entries = {event.seq: (event, body) for event, body in entries}
        self._due: list[int] = []
        self._sources: set[str] = set()
        self._changed = asyncio.Event()

    # --- what was recorded ---

    def at(self, seq: int) -> Entry | None:
        return self._entries.get(seq)

    @property
    def upcoming(self) -> Entry | None:
        return self.at(self.reached + 1)

    def after(self, seq: int) -> Iterator[tuple[Event, EventBody]]:
        """What was recorded after a seq, in order."""
        while (entry := self.at(seq := seq + 1)) is not None:
            if entry[1] is not None:
                yield entry[0], entry[1]

    def rest_of_run(self) -> Iterator[tuple[Event, EventBody]]:
        """What is still to come of the active run in this process, the run's end included."""
        for event, body in self.after(self.reached):
            if isinstance(body, RunStarted):
                return
            yield event, body
            if isinstance(body, RunComplete):
                return

    def next(self, kind: type[Body], after: int | None = None) -> Body | None:
        start = self.reached if after is None else after
        return next((body for _, body in self.after(start) if isinstance(body, kind)), None)

    def next_step(self, call_id: str) -> tuple[int, CallStep | None]:
        """What is recorded next about a call that was announced, and where."""
        for event, body in self.rest_of_run():
            if isinstance(body, CallStep) and body.call_id == call_id:
                return event.seq, body
        return 0, None

    async def wait_prepared(self, call_id: str) -> None:
        """Until a call was ready to be announced or, once decided, to be claimed: preparing it may take a while."""
        steps = ((event.seq, body) for event, body in self.rest_of_run() if isinstance(body, CallStep | ToolCall))
        seq, step = next(((seq, step) for seq, step in steps if step.call_id == call_id), (0, None))
        if isinstance(step, ToolCall | ToolClaimed):
            await self.wait_before(seq)

    # --- what the session asks the world for ---

    def clock(self) -> int:
        """When the next event was recorded; after the last one, its time."""
        entry = self.upcoming or self.at(self.reached)
        return entry[0].ts if entry else 0

    def has_room(self) -> bool:
        """Whether the disk had room for the call that is about to be decided."""
        ahead = (body for _, body in self.rest_of_run() if isinstance(body, Error | CallStep))
        found = next(ahead, None)
        return not (isinstance(found, Error) and found.code == "STORAGE_FULL")

    # --- what may happen next ---

    def expect(self, due: Sequence[int]) -> None:
        """Requests of clients come, each before the event that it left, in this order."""
        self._due = list(due)

    def begin(self) -> None:
        """The next request is made now."""
        self._due.pop(0)
        self.notify()

    def advance(self, seq: int) -> None:
        self.reached = max(seq, self.reached)  # what came before is observed, too
        self.notify()
        self.on_advance()

    def begin_stream(self, source: str) -> None:
        """Text may come from now on: of a call, by its id, or of the model."""
        self._sources.add(source)
        self.on_advance()

    def streamed(self, run: RunState) -> EventBody | None:
        """The text that is recorded next, if it can come now; what was held back comes when its source has ended."""
        body = self.upcoming[1] if self.upcoming else None
        match body:
            case AssistantToken() | ThinkingToken():
                may_come = MODEL in self._sources and not run.answered
            case ToolOutput():
                call = run.open_calls.get(body.call_id)
                may_come = call is not None and (call.is_delegate or body.call_id in self._sources)
            case FilesChanged():
                may_come = True  # found by looking at the files, which are not replayed
            case ChildStarted() | ChildFinished():
                may_come = body.call_id in run.open_calls and run.open_calls[body.call_id].is_claimed
            case QuestionAsked():
                may_come = body.call_id in self._sources
            case QuestionAnswered():
                # The end of a call closes its questions by itself; any other answer came while it ran.
                may_come = body.question_id in run.questions and body.by != RuntimeActor.DAEMON
            case _:
                may_come = False
        return body if may_come else None

    async def wait_before(self, seq: int) -> None:
        """Until everything before `seq` has happened and no request is due; meanwhile time passes, so timers fire."""
        while self.reached < seq - 1 or (self._due and self._due[0] - 1 <= self.reached):
            await self.wait_change()

    async def wait_change(self) -> None:
        await self._changed.wait()

    def notify(self) -> None:
        """Have every waiter look again."""
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


async def wait_for_ever() -> NoReturn:
    """What ran here was stopped from outside."""
    while True:
        await asyncio.Event().wait()
