"""What people said that is not in the log yet: steering for the active run, and messages for the runs after it.

What always holds: a message is kept, scrubbed, before it is accepted, and is taken out with the same commit that
records it; the same clientMessageId is kept once.
"""

from msgspec import Struct

from buddy.errors import ProtocolError
from buddy.log.contract import InboxItem, Log
from buddy.protocol.envelopes import decode, encode
from buddy.protocol.requests import QueueMessage, SendUserMessage
from buddy.scrub import Scrubber

MAX_QUEUED = 100
_STEER, _MESSAGE = "steer:", "message:"


class Waiting(Struct, frozen=True):
    """A message in its place, and who said it."""

    item_id: int
    message: SendUserMessage
    by: str


class Inbox:
    def __init__(self, log: Log, session_id: str, scrubber: Scrubber) -> None:
        self._log = log
        self._session_id = session_id
        self._scrubber = scrubber
        self._may_steer = True  # as far as this process knows: the one before it may have left something

    async def queue(self, message: QueueMessage, by: str) -> int:
        """Keep a message for a run of its own; gives its place in the line."""
        return await self._put(_MESSAGE, message, by)

    async def steer(self, message: QueueMessage, by: str) -> None:
        await self._put(_STEER, message, by)
        self._may_steer = True

    async def steers(self) -> list[Waiting]:
        """What was said to the active run meanwhile."""
        if not self._may_steer:
            return []
        self._may_steer = False
        return [_read(item) for item in await self._log.waiting(self._session_id) if item.kind.startswith(_STEER)]

    async def first(self) -> Waiting | None:
        """The next message: what was said to a run that is over begins one of its own."""
        waiting = await self._log.waiting(self._session_id)
        return _read(waiting[0]) if waiting else None

    async def _put(self, kind: str, message: QueueMessage, by: str) -> int:
        text = self._scrubber.text(message.text)
        body = bytes(encode(SendUserMessage(self._session_id, message.client_message_id, text)))
        place = await self._log.put(self._session_id, message.client_message_id, f"{kind}{by}", body, MAX_QUEUED)
        if place is None:
            raise ProtocolError("OVERLOADED", f"{MAX_QUEUED} messages wait already", retryable=True)
        return place


def _read(item: InboxItem) -> Waiting:
    return Waiting(item.item_id, decode(item.body, SendUserMessage), item.kind.partition(":")[2])
