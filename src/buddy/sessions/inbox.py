"""Messages that are not in the log yet: steering for the active run, and the queue for the runs after it.

Invariants: a message is stored, scrubbed, before it is accepted, and is removed by the same commit that records it;
the same clientMessageId waits once, and has one run.
"""

from collections.abc import Container

from msgspec import Struct

from buddy.errors import ProtocolError
from buddy.log.contract import InboxItem, Log
from buddy.protocol.envelopes import decode, encode
from buddy.protocol.events import UserMessage
from buddy.protocol.queue_requests import QueueMessage
from buddy.protocol.requests import SendUserMessage
from buddy.protocol.shapes import RunOptions, WaitingMessage
from buddy.scrub import Scrubber
from buddy.sessions.messages import scrub_message

MAX_QUEUED = 100
_STEER, _MESSAGE = "steer:", "message:"


class QueuedMessage(Struct, frozen=True):
    """A stored message and its sender."""

    item_id: int
    message: "StoredMessage"
    by: str
    steers: bool = False

    def shown(self) -> WaitingMessage:
        """As clients see it."""
        message = self.message
        return WaitingMessage(message.client_message_id, message.text, self.by, self.steers, message.attachments)


class StoredMessage(SendUserMessage, frozen=True):
    """A message as it is stored, scrubbed; `redacted` counts what was hidden by guess."""

    redacted: int = 0


class MessageQueue:
    def __init__(self, log: Log, session_id: str, scrubber: Scrubber, *, is_new: bool = False) -> None:
        self._log = log
        self._session_id = session_id
        self._scrubber = scrubber
        self._may_have_items = not (is_new and log.is_inbox_private)
        """False once the log had none and nobody else adds any, so that a turn need not query the log for nothing."""
        self._adding = 0

    async def queue(self, message: QueueMessage, by: str) -> int:
        """Store a message for a run of its own; returns its position in the queue, in which no steering counts."""
        place = await self._put(_MESSAGE, message, by)
        if place <= 1:
            return place
        waiting = await self._items()
        queued = [item.key for item in waiting if item.kind.startswith(_MESSAGE)]
        return queued.index(message.client_message_id) + 1 if message.client_message_id in queued else place

    async def steer(self, message: QueueMessage, by: str) -> None:
        await self._put(_STEER, message, by)

    async def waiting(self, recorded: Container[str]) -> list[QueuedMessage]:
        """Everything that no run has recorded yet, in its order."""
        found = [_read(item) for item in await self._items()]
        return [item for item in found if item.message.client_message_id not in recorded]

    async def steers(self) -> list[QueuedMessage]:
        """Messages to the active run that it has not recorded yet."""
        return [_read(item) for item in await self._items() if item.kind.startswith(_STEER)]

    async def first(self) -> QueuedMessage | None:
        """The next message. Steering that came too late for its run starts a run of its own."""
        waiting = await self._items()
        return _read(waiting[0]) if waiting else None

    async def _items(self) -> list[InboxItem]:
        if not self._may_have_items and not self._adding:
            return []
        self._may_have_items = not self._log.is_inbox_private  # before the read: a message may be added meanwhile
        try:
            found = await self._log.waiting(self._session_id)
        except BaseException:
            self._may_have_items = True
            raise
        self._may_have_items = self._may_have_items or bool(found)
        return found

    async def _put(self, kind: str, message: QueueMessage, by: str) -> int:
        said = await scrub_message(self._scrubber, message.text, as_is=message.as_is)
        options = RunOptions(as_is=True) if message.as_is else None
        stored = StoredMessage(
            self._session_id,
            message.client_message_id,
            said.text,
            options=options,
            attachments=message.attachments,
            redacted=said.redacted,
        )
        body = bytes(encode(stored))
        self._adding += 1
        try:
            place = await self._log.put(self._session_id, message.client_message_id, f"{kind}{by}", body, MAX_QUEUED)
        finally:
            self._adding -= 1
            self._may_have_items = True
        if place is None:
            raise ProtocolError("OVERLOADED", f"the message queue is full ({MAX_QUEUED})", retryable=True)
        return place


def steering_item(session_id: str, item_id: int, body: UserMessage) -> InboxItem:
    """A message to the active run, as it waited in the log before it was recorded."""
    options = RunOptions(as_is=True) if body.as_is else None
    stored = StoredMessage(
        session_id,
        body.message_id,
        body.text,
        options=options,
        attachments=body.attachments,
        redacted=body.redacted,
    )
    return InboxItem(item_id, body.message_id, f"{_STEER}{body.by}", bytes(encode(stored)))


def waiting_item(session_id: str, item_id: int, one: WaitingMessage) -> InboxItem:
    """A message as it waited before it was given back."""
    kind = _STEER if one.steers else _MESSAGE
    stored = StoredMessage(session_id, one.client_message_id, one.text, attachments=one.attachments)
    return InboxItem(item_id, one.client_message_id, f"{kind}{one.by}", bytes(encode(stored)))


def _read(item: InboxItem) -> QueuedMessage:
    kind, _, by = item.kind.partition(":")
    return QueuedMessage(item.item_id, decode(item.body, StoredMessage), by, f"{kind}:" == _STEER)
