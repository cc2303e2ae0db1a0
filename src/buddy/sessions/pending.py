"""What waits for a decision, in all sessions."""

from buddy.protocol.shapes import ApprovalRequest
from buddy.sessions.past import read_past
from buddy.sessions.sessions import Sessions
from buddy.sessions.snapshot import pending_of


async def pending_approvals(sessions: Sessions, user: str | None = None) -> list[ApprovalRequest]:
    """Those that have not expired, also of sessions that are not open here: they wait, too.

    With a `user`, only those of their sessions.
    """
    own = [session for session in sessions.open_sessions if user in (None, session.user)]
    found = [asked for session in own for asked in session.pending_approvals()]
    log, open_here = sessions.services.log, {session.session_id for session in sessions.open_sessions}
    for record in await log.active():
        is_elsewhere = record.state == "awaiting_approval" and record.session_id not in open_here
        if is_elsewhere and user in (None, record.user):
            past = await read_past(log, record.session_id, record.last_seq)
            found += pending_of(past.fold, record.session_id)
    now = sessions.services.clock()
    return [asked for asked in found if asked.expires_at > now]
