"""The parts of an Anthropic Messages response that Buddy reads: the events of a stream, or one message.

Invariants: any JSON that a server sends becomes an `Event` or a `Message`; only text that is not JSON raises
`ProviderError`.
"""

from msgspec import Struct

from buddy.models.chunks import Fault, Usage
from buddy.models.contract import TokenUsage
from buddy.models.lenient import Lenient
from buddy.models.long_events import EventData, LongEvent


class MessageUsage(Usage, frozen=True):
    """Here the input tokens are those that were neither read from the cache nor written to it."""

    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None

    def tokens(self) -> TokenUsage | None:
        found = super().tokens()
        read, written = self.cache_read_input_tokens, self.cache_creation_input_tokens
        if found is None or (read is None and written is None):
            return found
        return TokenUsage(
            found.input_tokens + max(0, read or 0) + max(0, written or 0),
            found.output_tokens,
            read if read is None else max(0, read),
            found.cost_usd,
            written if written is None else max(0, written),
        )

    def updated(self, later: "MessageUsage") -> "MessageUsage":
        """These counts, replaced by those that a later event repeats."""
        given = {name: value for name in self.__struct_fields__ if (value := getattr(later, name)) is not None}
        return MessageUsage(**{name: getattr(self, name) for name in self.__struct_fields__} | given)


class Block(Struct, frozen=True):
    """One block of a message's content, or the start of one."""

    type: str | None = None
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None
    id: str | None = None
    name: str | None = None
    input: dict[str, object] | str | None = None


class BlockDelta(Struct, frozen=True):
    """What is added to a block, or why the message ended."""

    type: str | None = None
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    partial_json: str | None = None
    stop_reason: str | None = None


class Message(Struct, frozen=True):
    """A complete message, or the empty one at the start of a stream."""

    type: str | None = None
    content: tuple[Block, ...] | None = None
    stop_reason: str | None = None
    usage: MessageUsage | None = None
    error: Fault | str | None = None


class Event(Struct, frozen=True):
    type: str | None = None
    index: int | None = None
    message: Message | None = None
    content_block: Block | None = None
    delta: BlockDelta | None = None
    usage: MessageUsage | None = None
    error: Fault | str | None = None


def read_event(data: EventData) -> Event:
    return _events.read(data.data, data) if isinstance(data, LongEvent) else _events.read(data)


def read_message(data: EventData) -> Message:
    if isinstance(data, LongEvent):
        return _messages.read(data.data, data)
    return _messages.read(data) if data.strip() else Message()


_events = Lenient(Event)
_messages = Lenient(Message)
