"""Which checkpoints a selection means, and what they changed together.

Invariants: the log says what happened when, the store what changed; a path that somebody else changed between two calls
of the selection is marked, because going back before the first of them would lose that.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from buddy.checkpoints.contract import Recorded
from buddy.checkpoints.entries import Change, is_same
from buddy.errors import ProtocolError
from buddy.log.contract import Log
from buddy.protocol.envelopes import Event
from buddy.protocol.events import EventBody, ModelRequest, RunStarted, ToolCall, ToolResult
from buddy.protocol.file_events import FilesChanged, FilesRestored
from buddy.sessions.past import read_pages

TYPES = ("run_started", "model_request", "tool_call", "tool_result", "files_changed", "files_restored")


class Selection(Protocol):
    """The part of a request that says which changes are meant."""

    @property
    def run_id(self) -> str | None: ...
    @property
    def turn(self) -> int | None: ...
    @property
    def call_id(self) -> str | None: ...
    @property
    def to_seq(self) -> int | None: ...
    @property
    def all(self) -> bool: ...


class Step(Struct, frozen=True):
    """Something that changed files: a call, the rest of a run, or an undo. `seq` is that of the call's result."""

    checkpoint_id: str
    seq: int
    run_id: str | None = None
    turn: int = 0
    call_id: str | None = None
    undid: tuple[str, ...] | None = None
    is_redo: bool = False
    is_partial: bool = False
    """An undo that left conflicts alone."""


class Combined(Struct, frozen=True):
    """`mixed` are paths that somebody else changed in between; `lost` counts checkpoints that are no longer kept."""

    changes: tuple[Change, ...]
    mixed: frozenset[str] = frozenset()
    lost: int = 0


async def read_steps(log: Log, session_id: str, wanted: Selection) -> list[Step]:
    """Everything that changed files in a session; refused if it lacks a run, turn, call or event named."""
    record = await log.get(session_id)
    last_seq = record.last_seq if record else 0
    if wanted.to_seq is not None and wanted.to_seq > last_seq:
        raise ProtocolError("INVALID_REQUEST", f"no event {wanted.to_seq} in this session; the last one is {last_seq}")
    found = _StepFinder()
    async for page in read_pages(log, session_id, types=TYPES):
        for event, body in page:
            found.observe(event, body)
    found.check(wanted)
    return found.steps()


class _StepFinder:
    """Feed it events in order."""

    def __init__(self) -> None:
        self._turn = 0
        self._runs: set[str] = set()
        self._turns: dict[str, int] = {}
        self._turn_numbers: set[int] = set()
        self._results: dict[str, int] = {}
        self._steps: list[Step] = []

    def observe(self, event: Event, body: EventBody | None) -> None:
        match body:
            case RunStarted():
                self._runs.add(body.run_id)
            case ModelRequest():
                self._turn = body.turn
                self._turn_numbers.add(body.turn)
            case ToolCall(call_id=str(call_id)):
                self._turns[call_id] = self._turn
            case ToolResult(call_id=str(call_id)):
                self._results[call_id] = event.seq
            case FilesChanged(call_id=call_id):
                of_turn = self._turns.get(call_id or "", self._turn)
                self._steps.append(Step(body.checkpoint_id, event.seq, event.run_id, of_turn, call_id))
            case FilesRestored():
                is_partial = bool(body.conflicts)
                step = Step(body.checkpoint_id, event.seq, undid=body.undid, is_redo=body.redo, is_partial=is_partial)
                self._steps.append(step)
            case _:
                pass

    def check(self, wanted: Selection) -> None:
        named = (("run", wanted.run_id, self._runs), ("call", wanted.call_id, self._turns))
        if wanted.turn is not None and wanted.turn not in self._turn_numbers:
            raise ProtocolError("INVALID_REQUEST", f"no turn {wanted.turn} in this session")
        for kind, name, known in named:
            if name is not None and name not in known:
                raise ProtocolError("INVALID_REQUEST", f"no {kind} {name[:80]!r} in this session")

    def steps(self) -> list[Step]:
        return [_at_result(step, self._results) for step in self._steps]


def _at_result(step: Step, results: Mapping[str, int]) -> Step:
    return replace(step, seq=min(step.seq, results.get(step.call_id or "", step.seq)))


def undone(steps: Iterable[Step]) -> set[str]:
    """The checkpoints whose changes are undone now.

    An undo that was taken back counts no longer, and one that left conflicts alone not yet: the next one goes on there.
    """
    found: set[str] = set()
    added = dict[str, set[str]]()
    for step in steps:
        if step.undid is None:
            continue
        if step.is_redo:
            for one in step.undid:
                found -= added.get(one, set())
        if step.is_redo or not step.is_partial:
            added[step.checkpoint_id] = set(step.undid) - found
            found |= added[step.checkpoint_id]
    return found


def select(steps: Sequence[Step], wanted: Selection) -> list[Step]:
    """The steps that a request means."""
    if wanted.to_seq is not None:
        return [step for step in steps if step.seq > wanted.to_seq]
    changes = [step for step in steps if step.undid is None]
    if wanted.run_id is None and wanted.call_id is None:
        gone = undone(steps)
        changes = [step for step in changes if step.checkpoint_id not in gone]
        if not wanted.all and changes:
            changes = [step for step in changes if step.run_id == changes[-1].run_id]
    return [
        step
        for step in changes
        if wanted.run_id in (None, step.run_id)
        and wanted.call_id in (None, step.call_id)
        and wanted.turn in (None, step.turn)
    ]


def with_undos(steps: Sequence[Step], chosen: Sequence[Step]) -> list[Step]:
    """The chosen steps, and what undid them alone: an undo that left conflicts restored the other paths."""
    found = {step.checkpoint_id for step in chosen}
    for step in steps:
        if step.undid and found.issuperset(step.undid):
            found.add(step.checkpoint_id)
    return [step for step in steps if step.checkpoint_id in found]


def last_undo(steps: Sequence[Step]) -> list[Step]:
    """The undo that a redo takes back: the last one that is not taken back yet."""
    gone = undone(steps)
    undos = [step for step in steps if step.undid is not None and not step.is_redo]
    return [step for step in undos if step.checkpoint_id not in gone][-1:]


def combine(steps: Sequence[Step], kept: Mapping[str, Recorded]) -> Combined:
    """What some steps changed together, by path.

    Calls of a session may run at the same time, as its sub-agents do. Between those nobody else can have been.
    """
    changes: dict[str, Change] = {}
    ends: dict[str, int] = {}
    mixed: set[str] = set()
    foreign: set[bytes] = set()
    recorded = [kept[step.checkpoint_id] for step in steps if step.checkpoint_id in kept]
    for one in sorted(recorded, key=lambda one: one.began):
        for path, before, after in one.changes:
            first, end = changes.get(path), ends.get(path, 0)
            if first is None:
                changes[path], ends[path] = Change(path, before, after), one.ended
                continue
            if one.began >= end and not is_same(first.after, before):
                mixed.add(path)
                foreign |= {before.content} if before is not None and before.content and before.size else set()
            if one.ended >= end:
                changes[path], ends[path] = Change(path, first.before, after), one.ended
    # What somebody else wrote may have been moved: then it is where the move put it.
    mixed |= {path for path, _, after in changes.values() if after is not None and after.content in foreign}
    real = tuple(change for change in changes.values() if not is_same(change.before, change.after))
    return Combined(real, frozenset(mixed), len(steps) - len(recorded))
