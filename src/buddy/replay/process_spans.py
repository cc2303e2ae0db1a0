"""The spans of a recorded session, each in one process, and what came from outside in them.

What always holds: a span begins where a process opened the session and found something to take up; what came from
outside is known by the event that it left.
"""

from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct

from buddy.errors import ProtocolError
from buddy.protocol.actors import RuntimeActor, acts_on_session
from buddy.protocol.events import (
    ApprovalExpired,
    ApprovalPolicyChanged,
    ApprovalReceived,
    ApprovalRequired,
    EventBody,
    ModelRequest,
    ModelSwitched,
    RunCancelling,
    RunComplete,
    RunStarted,
    SessionCompacted,
    SessionForked,
    SessionResumed,
    SessionStarted,
    ToolCall,
    UserMessage,
)
from buddy.protocol.requests import (
    CancelRun,
    SendUserMessage,
    SetApprovalPolicy,
    SteerRun,
    SubmitApproval,
    SwitchModel,
)
from buddy.protocol.shapes import AcceptanceOptions, RunOptions
from buddy.sessions.fork import Entry
from buddy.sessions.session import Session


class ProcessSpan(Struct, frozen=True):
    """The events of one process, from `first` to `last`; `is_complete`: nothing was under way when they ended."""

    first: int
    last: int
    is_complete: bool
    target: str
    sandbox: str


class ExternalInput(Struct, frozen=True):
    """Something that a client did, as soon as `gate` was recorded."""

    gate: int
    act: Callable[[Session], Awaitable[object]]


def spans_of(entries: Sequence[Entry]) -> list[ProcessSpan]:
    starts = [
        _first(entries),
        *(_recovery_start(entries, at) for at, entry in enumerate(entries) if _is_restart(entry)),
    ]
    starts = sorted({start for start in starts if start >= starts[0]})
    ends = [start - 1 for start in starts[1:]] + [entries[-1][0].seq]
    target, sandbox = _place(entries)
    return [
        ProcessSpan(first, last, _is_idle(entries, last), target, sandbox)
        for first, last in zip(starts, ends, strict=True)
        if first <= last
    ]


def _first(entries: Sequence[Entry]) -> int:
    """Where the session's own history begins: what a fork has copied happened elsewhere."""
    forks = [event.seq for event, body in entries if isinstance(body, SessionForked)]
    return forks[-1] + 1 if forks else 1


def _is_restart(entry: Entry) -> bool:
    body = entry[1]
    if isinstance(body, RunStarted):
        return body.recovered
    return isinstance(body, ApprovalPolicyChanged) and body.by == RuntimeActor.RESTART


def _recovery_start(entries: Sequence[Entry], at: int) -> int:
    """A recovery begins with what expired while nobody was there, and the end of a window in which all was allowed."""
    while at > 0 and isinstance(before := entries[at - 1][1], ApprovalExpired | ApprovalPolicyChanged):
        if isinstance(before, ApprovalPolicyChanged) and before.by != RuntimeActor.RESTART:
            break
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


class RecordedIds:
    """The ids that were given then, in that order, each kind by itself."""

    def __init__(self, known: dict[str, list[str]]) -> None:
        self._known = known

    def __call__(self, prefix: str) -> str:
        waiting = self._known.get(prefix)
        if not waiting:
            raise ProtocolError("INTERNAL_ERROR", f"one more {prefix} id than was recorded")
        return waiting.pop(0)


def ids_in(entries: Sequence[Entry], span: ProcessSpan) -> RecordedIds:
    runs: dict[str, None] = {}
    approvals: dict[str, None] = {}
    steers: dict[str, None] = {}
    old: set[str] = set()
    for at, (event, body) in enumerate(entries):
        found: dict[str, None] = {}
        match body:
            case RunStarted():
                runs[body.run_id] = found[body.run_id] = None
            case ApprovalRequired() | ApprovalReceived():
                approvals[body.approval_id] = found[body.approval_id] = None
            case UserMessage() if _is_steer(entries, at):
                steers[body.message_id] = found[body.message_id] = None
            case _:
                pass
        if event.seq < span.first:
            old |= set(found)
    return RecordedIds(
        {
            "run": [run for run in runs if run not in old],
            "appr": [approval for approval in approvals if approval not in old],
            "msg": [steer for steer in steers if steer not in old],
        }
    )


def inputs_of(entries: Sequence[Entry], span: ProcessSpan) -> list[ExternalInput]:
    """What came from outside, in the order in which it came."""
    found: list[ExternalInput] = []
    for at, (event, body) in enumerate(entries):
        if not span.first <= event.seq <= span.last or body is None:
            continue
        act = _act(entries, at, body)
        if act is not None:
            gate = _last_poll(entries, at) if _is_steer(entries, at) else event.seq - 1
            found.append(ExternalInput(max(gate, span.first - 1), act))
    return sorted(found, key=lambda given: given.gate)


def _act(entries: Sequence[Entry], at: int, body: EventBody) -> Callable[[Session], Awaitable[object]] | None:
    event = entries[at][0]
    session_id, run_id = event.session_id, event.run_id or ""
    match body:
        case SessionStarted():
            return lambda session: session.begin(body)
        case UserMessage() if _is_steer(entries, at):
            return lambda session: session.steer(SteerRun(run_id, body.text), body.by)
        case UserMessage() if acts_on_session(body.by):
            message = _message(session_id, body, entries[at + 1][1] if at + 1 < len(entries) else None)
            return lambda session: session.send(message, body.by)
        case ApprovalReceived() if _is_from_outside(entries, at, body):
            scope, seconds = body.scope or "once", _seconds_until(body.expires_at, event.ts)
            submission = SubmitApproval(
                session_id, run_id, body.approval_id, body.decision, body.comment, scope, body.stop, seconds
            )
            return lambda session: session.submit_approval(submission, body.by)
        case RunCancelling():
            return lambda session: session.cancel(CancelRun(session_id, run_id, body.reason), body.by)
        case ApprovalPolicyChanged() if acts_on_session(body.by):
            lasting = _seconds_until(body.expires_at, event.ts)
            return lambda session: session.set_policy(SetApprovalPolicy(body.policy, lasting), body.by)
        case ModelSwitched() if acts_on_session(body.by):
            wish = SwitchModel(body.after.get("profile"), body.after.get("model"))
            return lambda session: session.switch_model(wish, body.by)
        case SessionResumed():
            return lambda session: session.resume(body.by)
        case SessionCompacted() if acts_on_session(body.by):
            return lambda session: session.compact(body.by, undo=body.undo)
        case _:
            return None


def _seconds_until(expires_at: int | None, now: int) -> float | None:
    return None if expires_at is None else max(0.001, (expires_at - now) / 1000)


def _message(session_id: str, body: UserMessage, next_body: EventBody | None) -> SendUserMessage:
    if not isinstance(next_body, RunStarted):
        return SendUserMessage(session_id, body.message_id, body.text)
    options = next_body.options
    return SendUserMessage(
        session_id,
        body.message_id,
        body.text,
        options.acceptance_criteria,
        RunOptions(options.approval_policy, options.budget),
        AcceptanceOptions(options.max_rounds),
    )


def _is_steer(entries: Sequence[Entry], at: int) -> bool:
    """A message of a run that was under way already."""
    body, run_id = entries[at][1], entries[at][0].run_id
    if not isinstance(body, UserMessage) or not acts_on_session(body.by):
        return False
    return any(isinstance(other, RunStarted) and event.run_id == run_id for event, other in entries[:at])


def _last_poll(entries: Sequence[Entry], at: int) -> int:
    """When it was last looked whether the user had said something: it was said after that."""
    for event, body in reversed(entries[:at]):
        if isinstance(body, ModelRequest | RunStarted):
            return event.seq
    return 0


def _is_from_outside(entries: Sequence[Entry], at: int, body: ApprovalReceived) -> bool:
    """A person's decision; neither a rule's or a policy's, nor what a cancel did to what was waiting."""
    if not acts_on_session(body.by):
        return False
    run_id = entries[at][0].run_id
    return not any(isinstance(other, RunCancelling) and event.run_id == run_id for event, other in entries[:at])
