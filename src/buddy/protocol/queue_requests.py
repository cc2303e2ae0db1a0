"""Requests about messages that wait: for the active run's next turn, or for a run of their own."""

from buddy.protocol.ids import MessageId, RunId
from buddy.protocol.shapes import Attachment, Count, Shape, WaitingMessage


class SteerRun(Shape, frozen=True):
    run_id: RunId
    text: str
    as_is: bool = False
    attachments: tuple[Attachment, ...] = ()


class QueueMessage(Shape, frozen=True):
    client_message_id: MessageId
    text: str
    as_is: bool = False
    attachments: tuple[Attachment, ...] = ()


class QueueMessageReply(Shape, frozen=True):
    position: Count


class ListQueue(Shape, frozen=True):
    pass


class ListQueueReply(Shape, frozen=True):
    messages: tuple[WaitingMessage, ...]


class UnqueueMessage(Shape, frozen=True):
    """Take back a message that no run has yet."""

    client_message_id: MessageId


class UnqueueMessageReply(Shape, frozen=True):
    text: str
    attachments: tuple[Attachment, ...] = ()
