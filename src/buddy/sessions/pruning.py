"""Pruning the beginning of a session's log.

Invariant: afterwards the live state is the one that the rest of the log gives, and what does not depend on the
removed events is as before: the settings and grants of the session, and an `until` policy with its deadline.
"""

from msgspec.structs import replace

from buddy.backends.contract import RereadingBackend
from buddy.capabilities import has
from buddy.protocol.events import ApprovalPolicyChanged, ModelSwitched, ToolResult
from buddy.protocol.shapes import GrantedCall
from buddy.sessions.grants import session_grants
from buddy.sessions.past import read_pages, read_past
from buddy.sessions.session import Session
from buddy.sessions.state import SessionFold


async def prune(session: Session, before_seq: int, by: str) -> int:
    """Remove the events before a seq; returns the first remaining seq."""
    runs = session.runs
    runs.check_idle("prune")
    runs.held_for = "a prune"
    try:
        await session.guard(_prune(session, before_seq, by))
    finally:
        runs.held_for = ""
    await runs.start_queued()
    record = await session.services.log.get(session.session_id)
    return record.first_seq if record else 1


async def _prune(session: Session, before_seq: int, by: str) -> None:
    log, journal = session.services.log, session.journal
    before_seq = min(before_seq, journal.last_seq)
    if session.fold.started_seq < before_seq:
        await _restate(session, before_seq, by)
    await journal.commit(durable=True)
    first = await log.prune(journal.lease, before_seq)
    session.audience.forget(first)
    await _reread(session)


async def _restate(session: Session, before_seq: int, by: str) -> None:
    """Record the session's settings again, because the events that set them are about to be removed."""
    summaries = {digest: grant.summary for digest, grant in (await session_grants(session)).items()}
    fold, journal, model = session.fold, session.journal, session.backend.model()
    policy, lasting, is_set = session.approvals.session_policy(), fold.lasting_policy, fold.policy is not None
    granted = [
        GrantedCall(by_person.approval_id, digest, summaries[digest])
        for digest, by_person in fold.grants.items()
        if by_person.seq < before_seq
    ]
    if fold.started is not None:
        journal.record(replace(fold.started, state=fold.state))
    if policy.policy == "until" and lasting is not None:
        journal.record(ApprovalPolicyChanged(policy=lasting, by=by))
    changed = ApprovalPolicyChanged(policy=policy.policy, expires_at=policy.expires_at, by=by, plan=fold.plan)
    if is_set:
        journal.record(changed)
    for call in granted:
        journal.record(replace(changed, granted=call))
    if fold.profile is not None:
        named = {"profile": model.profile, "model": model.model, "api": model.api}
        journal.record(ModelSwitched(before=named, after=named, by=by))


async def _reread(session: Session) -> None:
    """Take what depends on the log from it again."""
    log, journal = session.services.log, session.journal
    last_seq, fold = 0, SessionFold()
    while last_seq < journal.last_seq:  # again if something was recorded while the log was read
        await journal.commit()
        last_seq = journal.last_seq
        if has(session.backend, RereadingBackend):
            await session.backend.reread()
        fold = (await read_past(log, session.session_id, last_seq)).fold
    session.fold.become(fold)
    outputs: set[str] = set()
    async for page in read_pages(log, session.session_id, types=("tool_result",)):
        outputs |= {body.output for _, body in page if isinstance(body, ToolResult) and body.output is not None}
    session.place.outputs.intersection_update(outputs)
