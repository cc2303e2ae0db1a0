"""Messages that wait, seen and taken back by clients."""

from buddy.errors import ProtocolError
from buddy.protocol.shapes import WaitingMessage
from buddy.sessions.inbox import StoredMessage
from buddy.sessions.journal import Rows
from buddy.sessions.session import Session


async def list_waiting(session: Session) -> tuple[WaitingMessage, ...]:
    return tuple(item.shown() for item in await session.runs.inbox.waiting(session.fold.runs))


async def take_back(session: Session, message_id: str) -> StoredMessage:
    """Remove a message before a run has it, and return it."""
    waiting = await session.runs.inbox.waiting(session.fold.runs)
    found = next((item for item in waiting if item.message.client_message_id == message_id), None)
    if found is not None:
        await session.commit(Rows(taken=(found.item_id,)))
    if found is None or message_id in session.fold.runs:
        raise ProtocolError("INVALID_REQUEST", f"message {message_id[:80]} is no longer waiting")
    return found.message
