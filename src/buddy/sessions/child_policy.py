"""The approval policy of sub-agents: it follows their parent's, and is never wider."""

import asyncio
import logging
from contextlib import suppress

from msgspec import Struct
from msgspec.structs import replace

from buddy.approvals.deadlines import Moment
from buddy.approvals.policy import EffectivePolicy
from buddy.errors import ProtocolError
from buddy.protocol.codes import Policy
from buddy.protocol.requests import SetApprovalPolicy
from buddy.sessions.children import working_children
from buddy.sessions.effective_policy import policy_of
from buddy.sessions.past import read_past
from buddy.sessions.policy_change import set_policy
from buddy.sessions.session import Session
from buddy.sessions.sessions import Sessions
from buddy.sessions.state import SessionFold

TRIES = 5
RETRY_SECONDS = 0.1

log = logging.getLogger("buddy.sessions")

_WIDTH: dict[Policy, int] = {"none": 0, "ask": 1, "auto": 2, "all": 3, "until": 3}


async def check_not_wider(sessions: Sessions, session: Session, request: SetApprovalPolicy) -> None:
    """Refuse a policy for a sub-agent that would allow more than its parent's, while that waits for it."""
    started = session.fold.started
    parent = await _parent_of(sessions, started.delegated.parent) if started and started.delegated else None
    if parent is None or parent.fold.run is None:
        return
    if session.session_id not in [child.session_id for child in parent.fold.run.working_children]:
        return
    if request.policy is not None:
        _check_width(parent, session.services.now(), request.policy, request.duration_seconds)
    if request.plan is False and parent.fold.is_planning:
        raise ProtocolError("INVALID_REQUEST", "its parent is in plan mode", detail=f"change {parent.session_id}")


class _Parent(Struct, frozen=True):
    session_id: str
    fold: SessionFold
    policy: EffectivePolicy


async def _parent_of(sessions: Sessions, session_id: str) -> _Parent | None:
    """A session with a run, as it is here, or as its log says if another process has it."""
    live, services = sessions.live(session_id), sessions.services
    if live is not None:
        return _Parent(session_id, live.fold, live.approvals.policy())
    record = await services.log.get(session_id) if services.elsewhere is not None else None
    if record is None or not record.is_active:
        return None
    fold = (await read_past(services.log, session_id, record.last_seq)).fold
    return _Parent(session_id, fold, policy_of(fold, services.now()))


def _check_width(parent: _Parent, now: Moment, wanted: Policy, seconds: float | None) -> None:
    """A window ends when the parent's does; whatever lasts is compared with what the parent falls back to."""
    effective = parent.policy
    allowed, ends = effective.at(now), effective.expires
    left = (
        ends.seconds_left(now) if effective.policy == "until" and ends is not None and not ends.is_over(now) else None
    )
    why = ""
    if left is not None and wanted == "until":
        why = f"which ends in {left:.0f} s" if seconds is not None and seconds > left else ""
    elif _WIDTH[wanted] > _WIDTH[allowed if left is None else effective.before]:
        why = f"which is {allowed}" if left is None else f"which is {effective.before} in {left:.0f} s"
    if why:
        raise ProtocolError(
            "INVALID_REQUEST",
            f"a sub-agent's policy cannot be wider than its parent's, {why}",
            detail=f"change the policy of {parent.session_id}: its sub-agents follow it",
        )


async def follow_policy(sessions: Sessions, session: Session, request: SetApprovalPolicy, by: str) -> None:
    """Change the policy of the sub-agents that work for a session as its own was changed."""
    for child_id in working_children(sessions, session.session_id):
        with suppress(ProtocolError):
            await _follow(sessions, child_id, request, by)


async def _follow(sessions: Sessions, child_id: str, request: SetApprovalPolicy, by: str) -> None:
    """A sub-agent that moves to another node just now is found there by one of the next tries."""
    for attempt in range(TRIES):
        child, elsewhere = sessions.live(child_id), sessions.services.elsewhere
        try:
            if child is not None:
                await set_policy(child, _possible(child, request), by)
            elif elsewhere is not None:  # its own sub-agents follow it there
                await elsewhere.ask(child_id, "set_approval_policy", request, by)
        except ProtocolError as error:
            if elsewhere is None or not (error.retryable or (child is not None and child.broken)):
                raise
            await asyncio.sleep(RETRY_SECONDS * 2**attempt)
        else:
            return
    log.warning("%s did not get the approval policy of its parent", child_id)


def _possible(child: Session, request: SetApprovalPolicy) -> SetApprovalPolicy:
    """What a sub-agent can follow: another agent cannot change its mode while it works, but its policy holds."""
    return request if child.backend.name == "native" else replace(request, plan=None)
