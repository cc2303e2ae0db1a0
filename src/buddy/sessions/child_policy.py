"""The approval policy of sub-agents: it follows their parent's, and is never wider."""

from contextlib import suppress

from msgspec.structs import replace

from buddy.errors import ProtocolError
from buddy.protocol.codes import Policy
from buddy.protocol.requests import SetApprovalPolicy
from buddy.sessions.children import working_children
from buddy.sessions.policy_change import set_policy
from buddy.sessions.session import Session
from buddy.sessions.sessions import Sessions

_WIDTH: dict[Policy, int] = {"none": 0, "ask": 1, "auto": 2, "all": 3, "until": 3}


def check_not_wider(sessions: Sessions, session: Session, request: SetApprovalPolicy) -> None:
    """Refuse a policy for a sub-agent that would allow more than its parent's, while that waits for it."""
    started = session.fold.started
    parent = sessions.live(started.delegated.parent) if started and started.delegated else None
    if parent is None or session.session_id not in working_children(sessions, parent.session_id):
        return
    if request.policy is not None:
        _check_width(parent, request.policy, request.duration_seconds)
    if request.plan is False and parent.fold.is_planning:
        raise ProtocolError("INVALID_REQUEST", "its parent is in plan mode", detail=f"change {parent.session_id}")


def _check_width(parent: Session, wanted: Policy, seconds: float | None) -> None:
    """A window ends when the parent's does; whatever lasts is compared with what the parent falls back to."""
    now, effective = parent.services.now(), parent.approvals.policy()
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
        child = sessions.live(child_id)
        if child is not None:
            with suppress(ProtocolError):
                await set_policy(child, _possible(child, request), by)


def _possible(child: Session, request: SetApprovalPolicy) -> SetApprovalPolicy:
    """What a sub-agent can follow: another agent cannot change its mode while it works, but its policy holds."""
    return request if child.backend.name == "native" else replace(request, plan=None)
