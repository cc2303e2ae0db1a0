"""What clients asked of a recorded session, and the ids that were assigned.

Invariant: a request is known by the event that it left, and is made again where that event was recorded.
"""

from collections.abc import Awaitable, Callable, Sequence
from itertools import takewhile

from msgspec import Struct

from buddy.protocol.actors import acts_on_session
from buddy.protocol.events import (
    ApprovalPolicyChanged,
    ApprovalReceived,
    ApprovalRequired,
    CancelScheduled,
    EventBody,
    FilesRestored,
    HookFinished,
    ModelSwitched,
    RunCancelling,
    RunStarted,
    SessionCompacted,
    SessionResumed,
    SessionStarted,
    UserMessage,
    WarningRaised,
)
from buddy.protocol.grant_requests import RevokeGrant
from buddy.protocol.ids import Ids
from buddy.protocol.requests import (
    CancelRun,
    SendUserMessage,
    SetApprovalPolicy,
    SubmitApproval,
    SwitchModel,
)
from buddy.protocol.shapes import AcceptanceOptions, RunOptions
from buddy.replay.recording import ProcessSpan, ReplayCursor
from buddy.sessions.compaction import compact
from buddy.sessions.fork import Entry
from buddy.sessions.grants import revoke_grant
from buddy.sessions.messages import command_of
from buddy.sessions.model_switch import switch_model
from buddy.sessions.policy_change import set_policy
from buddy.sessions.session import Session
from buddy.tools.contract import Place
from buddy.tools.skills.expansion import Expansion

Act = Callable[[Session], Awaitable[object]]


class ClientRequest(Struct, frozen=True):
    """What a client asked for, and the seq of the event that it left."""

    seq: int
    act: Act


def requests_in(entries: Sequence[Entry], span: ProcessSpan) -> list[ClientRequest]:
    """The requests of a span, in their order."""
    found: list[ClientRequest] = []
    for at, (event, body) in enumerate(entries):
        if body is not None and span.first <= event.seq <= span.last and _is_external(body):
            act = _act(entries, at, body)
            found += [ClientRequest(event.seq, act)] if act is not None else []
    return found


def _is_external(body: EventBody) -> bool:
    """Whether a client, and not the session itself, was behind an event."""
    match body:
        case UserMessage() if body.steers:
            return False  # the run takes it from its inbox
        case UserMessage() | ApprovalReceived() | ApprovalPolicyChanged() | ModelSwitched() | SessionCompacted():
            return acts_on_session(body.by)
        case _:
            return True


def _act(entries: Sequence[Entry], at: int, body: EventBody) -> Act | None:
    """The request behind an event, if there is one."""
    event = entries[at][0]
    session_id, run_id = event.session_id, event.run_id or ""
    match body:
        case SessionStarted():
            notes = [note for _, note in takewhile(_is_note, entries[at + 1 :]) if isinstance(note, WarningRaised)]
            return lambda session: session.begin(body, notes)
        case UserMessage():
            message = _message(session_id, body, entries[at + 1][1] if at + 1 < len(entries) else None)
            return lambda session: session.runs.send(message, body.by)
        case ApprovalReceived():
            scope, seconds = body.scope or "once", _seconds_until(body.expires_at, event.ts)
            submission = SubmitApproval(
                session_id, run_id, body.approval_id, body.decision, body.comment, scope, body.stop, seconds
            )
            return lambda session: session.submit_approval(submission, body.by)
        case RunCancelling() | CancelScheduled():
            request = _cancel(session_id, run_id, body, event.ts)
            return lambda session: session.runs.cancel(request, body.by)
        case ApprovalPolicyChanged():
            return _change_policy(body, event.ts)
        case ModelSwitched():
            model = SwitchModel(body.after.get("profile"), body.after.get("model"))
            return lambda session: switch_model(session, model, body.by)
        case SessionResumed() | FilesRestored():
            return lambda session: _record_again(session, body)
        case HookFinished() if event.run_id is None:
            return _record_outside(body)
        case SessionCompacted():
            return lambda session: compact(session, body.by, undo=body.undo)
        case _:
            return None


def _record_outside(body: HookFinished) -> Act:
    """A hook outside of a run answered when it was done."""

    async def record(session: Session) -> None:
        session.hooks.record((body,), None)
        await session.commit()

    return record


async def _record_again(session: Session, body: SessionResumed | FilesRestored) -> None:
    """Nothing is done to files: that they were restored is taken as it was recorded."""
    if isinstance(body, SessionResumed):
        await session.resume(body.by)
    else:
        session.journal.record(body)
        await session.commit(durable=True)


def _cancel(session_id: str, run_id: str, body: RunCancelling | CancelScheduled, now: int) -> CancelRun:
    if isinstance(body, CancelScheduled):
        return CancelRun(session_id, run_id, body.reason, _seconds_until(body.at, now))
    return CancelRun(session_id, run_id, body.reason, return_queue=bool(body.returned))


def _change_policy(body: ApprovalPolicyChanged, now: int) -> Act:
    if (revoked := body.revoked) is not None:
        return lambda session: revoke_grant(session, RevokeGrant(revoked), body.by)
    policy = SetApprovalPolicy(body.policy, _seconds_until(body.expires_at, now), body.plan)
    return lambda session: set_policy(session, policy, body.by)


def _is_note(entry: Entry) -> bool:
    return isinstance(entry[1], WarningRaised) and entry[0].run_id is None


def _seconds_until(expires_at: int | None, now: int) -> float | None:
    return None if expires_at is None else max(0.001, (expires_at - now) / 1000)


def _message(session_id: str, body: UserMessage, next_body: EventBody | None) -> SendUserMessage:
    if not isinstance(next_body, RunStarted):
        options = RunOptions(as_is=body.as_is)
        return SendUserMessage(session_id, body.message_id, body.text, options=options, attachments=body.attachments)
    options = next_body.options
    return SendUserMessage(
        session_id,
        body.message_id,
        body.text,
        options.acceptance_criteria,
        RunOptions(options.approval_policy, options.budget, as_is=body.as_is),
        AcceptanceOptions(options.max_rounds),
        attachments=body.attachments,
    )


def ids_for(cursor: ReplayCursor) -> Ids:
    """The ids that were assigned: each is in the event that is recorded next."""

    def assign(prefix: str) -> str:
        event, body = cursor.upcoming or (None, None)
        if prefix == "run":
            found = event.run_id if event else None
        else:
            found = body.approval_id if isinstance(body, ApprovalRequired | ApprovalReceived) else None
        return found or f"{prefix}_unrecorded"

    return assign


async def recorded_expansion(cursor: ReplayCursor, text: str, place: Place, *, runs_commands: bool) -> Expansion | None:
    """What a slash command stood for when it was sent."""
    del place, runs_commands
    said = cursor.next(UserMessage)
    if said is None or said.text != text or said.expanded is None:
        return None
    return Expansion(said.expanded, tuple(command_of(item) for item in said.insertions))
