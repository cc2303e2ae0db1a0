"""Changing the approval policy of a session, and its plan mode."""

from buddy.approvals.policy import EffectivePolicy
from buddy.errors import ProtocolError
from buddy.protocol.events import ApprovalPolicyChanged
from buddy.protocol.requests import SetApprovalPolicy
from buddy.sessions.session import Session


async def set_policy(session: Session, request: SetApprovalPolicy, by: str) -> EffectivePolicy:
    """Change the policy from now on; what is pending is decided by it like any other call."""
    if request.policy is None and request.plan is None:
        raise ProtocolError("INVALID_REQUEST", "set_approval_policy needs policy, plan or both")
    if request.plan is not None and request.plan != session.fold.is_planning and session.backend.name != "native":
        raise ProtocolError(
            "INVALID_REQUEST",
            f"{session.backend.name} takes plan mode only when its session starts",
            detail=f"start a new session {'with' if request.plan else 'without'} plan mode",
        )
    if (request.policy == "until") != (request.duration_seconds is not None):
        raise ProtocolError(
            "INVALID_REQUEST", "durationSeconds is required with policy 'until' and not allowed otherwise"
        )
    seconds, policy = request.duration_seconds, session.approvals.session_policy()
    if request.policy is not None:
        policy = EffectivePolicy(request.policy, None if seconds is None else session.services.now().after(seconds))
    session.approvals.window = policy.expires
    changed = ApprovalPolicyChanged(policy=policy.policy, expires_at=policy.expires_at, by=by, plan=request.plan)
    session.journal.record(changed)
    await session.commit(durable=True)
    await session.guard(session.approvals.apply_policy())
    return policy
