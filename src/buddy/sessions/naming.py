"""Renaming and archiving a session: recorded like everything else, without opening it.

The name of a session depends neither on its model nor on its folder, so it can be changed while either is missing.
"""

from msgspec.structs import replace

from buddy.errors import Fenced, ProtocolError
from buddy.log.contract import Batch
from buddy.protocol.envelopes import event_of
from buddy.protocol.events import SessionArchived, SessionRenamed
from buddy.protocol.titles import MAX_TITLE, check_title, cut_at_word
from buddy.sessions.listing import ListedRow
from buddy.sessions.sessions import Sessions

ATTEMPTS = 3


async def rename(sessions: Sessions, session_id: str, title: str, by: str) -> str:
    """Give a session a title; returns it as it was recorded."""
    scrubbed = sessions.services.scrubber.text(check_title(title))
    recorded = SessionRenamed(title=cut_at_word(scrubbed, MAX_TITLE), by=by)
    await _record(sessions, session_id, recorded)
    return recorded.title


async def archive(sessions: Sessions, session_id: str, by: str, *, archived: bool) -> bool:
    """Take a session out of the list, or bring it back; nothing is recorded if it is as wanted."""
    if (await sessions.record(session_id)).facts.archived != archived:
        await _record(sessions, session_id, SessionArchived(archived=archived, by=by))
    return archived


async def _record(sessions: Sessions, session_id: str, body: SessionRenamed | SessionArchived) -> None:
    for _ in range(ATTEMPTS):
        session = await sessions.opened(session_id)
        if session is not None:
            session.journal.record(body)
            await session.commit(durable=True)
            return
        try:
            await _append(sessions, session_id, body)
        except Fenced:
            continue  # it was opened meanwhile
        return
    raise ProtocolError("RUN_IN_PROGRESS", f"{session_id} is in use; try again", retryable=True)


async def _append(sessions: Sessions, session_id: str, body: SessionRenamed | SessionArchived) -> None:
    """Record it in a session that is not open."""
    services = sessions.services
    lease = await sessions.acquire(session_id)
    is_active = False
    try:
        record = await sessions.record(session_id)
        is_active = record.is_active
        row = ListedRow(record)
        row.apply(body)
        title, facts = row.take_changes(record.facts.waiting)
        event = event_of(body, session_id=session_id, seq=record.last_seq + 1, ts=services.clock())
        batch = Batch(session_id, lease.epoch, record.last_seq, [event], durable=True, is_use=False)
        await services.log.append(replace(batch, title=title, facts=facts))
    finally:
        await services.release(lease, resume=is_active)
    for listener in services.listeners:
        listener([event])
