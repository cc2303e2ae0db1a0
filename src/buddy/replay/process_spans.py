"""The parts of a recorded session that ran in one process each.

Invariant: a span begins where a process opened the session and found something to recover.
"""

from collections.abc import Sequence

from msgspec import Struct

from buddy.protocol.actors import RuntimeActor
from buddy.protocol.events import (
    ApprovalExpired,
    ApprovalPolicyChanged,
    EventBody,
    RunComplete,
    RunStarted,
    SessionForked,
    ToolCall,
)
from buddy.sessions.fork import Entry


class ProcessSpan(Struct, frozen=True):
    """The events of one process, from `first` to `last`; `is_complete`: no run was active when they ended."""

    first: int
    last: int
    is_complete: bool
    target: str
    sandbox: str


def spans_of(entries: Sequence[Entry]) -> list[ProcessSpan]:
    first = _first(entries)
    starts = {first, *(_recovery_start(entries, at) for at, entry in enumerate(entries) if _is_restart(entry[1]))}
    starts = sorted(start for start in starts if start >= first)
    ends = [start - 1 for start in starts[1:]] + [entries[-1][0].seq]
    target, sandbox = _place(entries)
    return [
        ProcessSpan(start, end, _is_idle(entries, end), target, sandbox)
        for start, end in zip(starts, ends, strict=True)
        if start <= end
    ]


def _first(entries: Sequence[Entry]) -> int:
    """Where the session's own history begins: what a fork copied happened elsewhere."""
    forks = [event.seq for event, body in entries if isinstance(body, SessionForked)]
    return forks[-1] + 1 if forks else 1


def _is_restart(body: EventBody | None) -> bool:
    if isinstance(body, RunStarted):
        return body.recovered
    return isinstance(body, ApprovalPolicyChanged) and body.by == RuntimeActor.RESTART


def _recovery_start(entries: Sequence[Entry], at: int) -> int:
    """A recovery begins with the approvals that expired meanwhile and the end of an approval window."""
    while at > 0 and (isinstance(before := entries[at - 1][1], ApprovalExpired) or _is_restart(before)):
        at -= 1
    return entries[at][0].seq


def _is_idle(entries: Sequence[Entry], last: int) -> bool:
    runs = [body for event, body in entries if event.seq <= last and isinstance(body, RunStarted | RunComplete)]
    return not runs or isinstance(runs[-1], RunComplete)


def _place(entries: Sequence[Entry]) -> tuple[str, str]:
    for _, body in entries:
        if isinstance(body, RunStarted) and body.options.target:
            return body.options.target, body.options.sandbox or "host"
        if isinstance(body, ToolCall) and body.target:
            return body.target, "host"
    return "local", "host"
