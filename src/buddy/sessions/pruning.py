"""Pruning the beginning of a session's log."""

from msgspec.structs import replace

from buddy.errors import ProtocolError
from buddy.protocol.actors import RuntimeActor
from buddy.protocol.events import ApprovalPolicyChanged, ModelSwitched
from buddy.sessions.session import Session


async def prune(session: Session, before_seq: int) -> int:
    """Remove the events before a seq; returns the first remaining seq."""
    session.runs.check_idle("prune")
    last_seq = session.journal.last_seq
    if before_seq > last_seq + 1:
        raise ProtocolError("INVALID_REQUEST", f"beforeSeq must not be above {last_seq + 1}, the end of the log")
    if session.fold.started_seq < min(before_seq, last_seq):
        _restate(session)
    await session.commit(durable=True)
    first = await session.services.log.prune(session.journal.lease, min(before_seq, last_seq))
    session.audience.forget(first)
    return first


def _restate(session: Session) -> None:
    """Record the session's settings again, because the events that set them are about to be removed."""
    fold, journal, model = session.fold, session.journal, session.backend.model()
    if fold.started is not None:
        journal.record(replace(fold.started, state=fold.state))
    if fold.policy == "until" and fold.lasting_policy is not None:
        journal.record(ApprovalPolicyChanged(policy=fold.lasting_policy, by=RuntimeActor.RESTART))
    if fold.policy is not None:
        expires = fold.policy_expires_at
        restated = ApprovalPolicyChanged(
            policy=fold.policy, expires_at=expires, by=RuntimeActor.RESTART, plan=fold.plan
        )
        journal.record(restated)
    if fold.profile is not None:
        named = {"profile": model.profile, "model": model.model, "api": model.api}
        journal.record(ModelSwitched(before=named, after=named, by=RuntimeActor.RESTART))
