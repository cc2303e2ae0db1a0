"""What a person granted for more than one call: listing it, and taking it back.

A grant is named by its approval. Those of exactly one call (scope `session`) are in the log and survive a restart;
those of a rule (scope `until`, and reading outside the workspace) end with the process.
"""

from buddy.approvals.audit import decision_of
from buddy.approvals.deadlines import NEVER
from buddy.errors import ProtocolError
from buddy.log.contract import Log
from buddy.protocol.envelopes import Event
from buddy.protocol.events import ApprovalPolicyChanged, ApprovalReceived
from buddy.protocol.grant_requests import RevokeGrant
from buddy.protocol.shapes import Grant
from buddy.sessions.session import Session
from buddy.sessions.sessions import Sessions

LOOKED_THROUGH = 1000
"""How many of the latest decisions are searched for the grants of sessions that are not open."""


async def list_grants(session: Session) -> list[Grant]:
    """Those that have not expired or been revoked."""
    session_id = session.session_id
    found = {grant.grant_id: grant for grant in (await session_grants(session)).values()}
    for granted in session.approvals.permissions.grants(session.services.now()):
        expires = None if granted.until == NEVER else granted.until.unix_ms
        scope = "session" if expires is None else "until"
        found[granted.approval_id] = Grant(granted.approval_id, session_id, scope, granted.rule.describe(), expires)
    return list(found.values())


async def session_grants(session: Session) -> dict[str, Grant]:
    """Those of exactly one call, by its digest."""
    log, session_id, found = session.services.log, session.session_id, dict[str, Grant]()
    for digest, granted in list(session.fold.grants.items()):
        events = await log.read(session_id, granted.seq - 1, 1)
        summary = await _summary(log, events[0]) if events and events[0].seq == granted.seq else ""
        found[digest] = Grant(granted.approval_id, session_id, "session", summary)
    return found


async def all_grants(sessions: Sessions, user: str | None = None) -> list[Grant]:
    """Those of all sessions, or of a user's, also of those not open here: they hold again when one is opened."""
    log, open_here = sessions.services.log, {session.session_id for session in sessions.open_sessions}
    closed: dict[str, Grant] = {}
    for event in await log.decisions(LOOKED_THROUGH, None, 0, user):
        body = event.body() if event.session_id not in open_here else None
        if isinstance(body, ApprovalPolicyChanged) and body.revoked:
            closed.pop(body.revoked, None)
        elif isinstance(body, ApprovalPolicyChanged) and body.granted:
            granted = body.granted
            closed[granted.approval_id] = Grant(granted.approval_id, event.session_id, "session", granted.summary)
        elif isinstance(body, ApprovalReceived) and (body.decision, body.scope) == ("approve", "session"):
            closed[body.approval_id] = Grant(body.approval_id, event.session_id, "session", await _summary(log, event))
    own = [session for session in sessions.open_sessions if user in (None, session.user)]
    return [*closed.values(), *[grant for session in own for grant in await list_grants(session)]]


async def revoke_grant(session: Session, request: RevokeGrant, by: str) -> None:
    """From the next call on, a person is asked again; the policy stays as it is."""
    granted = {grant.approval_id for grant in session.fold.grants.values()}
    granted |= {grant.approval_id for grant in session.approvals.permissions.grants(session.services.now())}
    if request.grant_id not in granted:
        raise ProtocolError("APPROVAL_NOT_FOUND", f"this session has no grant {request.grant_id[:80]}")
    policy = session.approvals.session_policy()
    changed = ApprovalPolicyChanged(policy=policy.policy, expires_at=policy.expires_at, by=by, revoked=request.grant_id)
    session.approvals.permissions.revoke(request.grant_id)
    session.approvals.window = policy.expires
    session.journal.record(changed)
    await session.commit(durable=True)


async def _summary(log: Log, event: Event) -> str:
    """The call that an event granted."""
    body = event.body()
    if isinstance(body, ApprovalPolicyChanged) and body.granted:
        return body.granted.summary
    made = await decision_of(log, event)
    return " ".join(word for word in (made.tool, made.summary) if word) if made else ""
