"""Changing the approval policy of a session."""

from buddy.approvals.policy import EffectivePolicy
from buddy.errors import ProtocolError
from buddy.protocol.events import ApprovalPolicyChanged
from buddy.protocol.requests import SetApprovalPolicy
from buddy.sessions.session import Session


async def set_policy(session: Session, request: SetApprovalPolicy, by: str) -> EffectivePolicy:
    """Change the policy from now on; what is pending is decided by it like any other call."""
    if (request.policy == "until") != (request.duration_seconds is not None):
        raise ProtocolError(
            "INVALID_REQUEST", "durationSeconds is required with policy 'until' and not allowed otherwise"
        )
    seconds = request.duration_seconds
    policy = EffectivePolicy(request.policy, None if seconds is None else session.services.now().after(seconds))
    session.approvals.window = policy.expires
    session.journal.record(ApprovalPolicyChanged(policy=policy.policy, expires_at=policy.expires_at, by=by))
    await session.commit(durable=True)
    await session.guard(session.approvals.apply_policy())
    return policy
