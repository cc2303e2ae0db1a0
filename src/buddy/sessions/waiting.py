"""Messages that wait, seen and taken back by clients."""

from buddy.errors import ProtocolError
from buddy.log.contract import SessionRecord
from buddy.protocol.shapes import WaitingMessage
from buddy.sessions.inbox import MessageQueue, StoredMessage
from buddy.sessions.journal import Rows
from buddy.sessions.past import read_past
from buddy.sessions.session import Session
from buddy.sessions.sessions import Sessions


async def list_waiting(sessions: Sessions, record: SessionRecord) -> tuple[WaitingMessage, ...]:
    """From the log alone, unless the session is open here."""
    session, services = sessions.live(record.session_id), sessions.services
    if session is not None:
        inbox, fold = session.runs.inbox, session.fold
    else:
        inbox = MessageQueue(services.log, record.session_id, services.scrubber)
        fold = (await read_past(services.log, record.session_id, record.last_seq)).fold
    return tuple(item.shown() for item in await inbox.waiting(fold.runs))


async def take_back(session: Session, message_id: str) -> StoredMessage:
    """Remove a message before a run has it, and return it."""
    waiting = await session.runs.inbox.waiting(session.fold.runs)
    found = next((item for item in waiting if item.message.client_message_id == message_id), None)
    if found is not None:
        await session.commit(Rows(taken=(found.item_id,)))
    if found is None or message_id in session.fold.runs:
        raise ProtocolError("INVALID_REQUEST", f"message {message_id[:80]} is no longer waiting")
    return found.message
