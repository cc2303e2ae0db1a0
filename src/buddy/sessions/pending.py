"""What waits for a decision, in all sessions."""

from buddy.protocol.shapes import ApprovalRequest
from buddy.sessions.past import read_past
from buddy.sessions.sessions import Sessions
from buddy.sessions.snapshot import pending_of


async def pending_approvals(sessions: Sessions) -> list[ApprovalRequest]:
    """Those that have not expired, also of sessions that are not open here: they wait, too."""
    found = [asked for session in sessions.open_sessions for asked in session.pending_approvals()]
    log, open_here = sessions.services.log, {session.session_id for session in sessions.open_sessions}
    for record in await log.active():
        if record.state == "awaiting_approval" and record.session_id not in open_here:
            past = await read_past(log, record.session_id, record.last_seq)
            found += pending_of(past.fold(), record.session_id)
    now = sessions.services.clock()
    return [asked for asked in found if asked.expires_at > now]
