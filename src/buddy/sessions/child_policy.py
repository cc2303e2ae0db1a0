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
    allowed = parent.approvals.policy().at(parent.services.now())
    if request.policy is not None and _WIDTH[request.policy] > _WIDTH[allowed]:
        raise ProtocolError(
            "INVALID_REQUEST",
            f"a sub-agent's policy cannot be wider than its parent's, which is {allowed}",
            detail=f"change the policy of {parent.session_id}: its sub-agents follow it",
        )
    if request.plan is False and parent.fold.is_planning:
        raise ProtocolError("INVALID_REQUEST", "its parent is in plan mode", detail=f"change {parent.session_id}")


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
