"""Requests about messages that wait: for the active run's next turn, or for a run of their own."""

from buddy.protocol.ids import MessageId, RunId
from buddy.protocol.shapes import Count, Shape, Text


class SteerRun(Shape, frozen=True):
    run_id: RunId
    text: Text
    as_is: bool = False


class QueueMessage(Shape, frozen=True):
    client_message_id: MessageId
    text: Text
    as_is: bool = False


class QueueMessageReply(Shape, frozen=True):
    position: Count
