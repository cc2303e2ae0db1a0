"""The parts of a Responses stream that Buddy reads.

Invariants: any JSON that a server sends becomes an `Event`, an `Output` or a `Final`; only text that is not JSON raises
`ProviderError`. Output items stay raw here: some of them must be returned byte for byte.
"""

from msgspec import Raw, Struct

from buddy.models.chunks import Fault, Usage
from buddy.models.lenient import Lenient
from buddy.models.long_events import EventData, LongEvent


class Event(Struct, frozen=True, gc=False):
    """One event; `type` says which of the other fields it has."""

    type: str | None = None
    delta: str | None = None
    item_id: str | None = None
    output_index: int | None = None
    content_index: int | None = None
    summary_index: int | None = None
    text: str | None = None
    refusal: str | None = None
    arguments: str | None = None
    item: Raw = Raw()
    response: Raw = Raw()
    usage: Usage | None = None
    error: Fault | str | None = None
    message: str | None = None
    code: int | str | None = None


class Part(Struct, frozen=True):
    """A part of a message, or of a reasoning item's content or summary."""

    text: str | None = None
    refusal: str | None = None


class Output(Struct, frozen=True):
    """An output item."""

    type: str | None = None
    id: str | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: str | dict[str, object] | None = None
    content: str | tuple[Part, ...] | None = None
    summary: tuple[Part, ...] | None = None
    encrypted_content: str | None = None
    phase: str | None = None

    def text(self) -> str:
        """The text of a message; a refusal is text too."""
        if isinstance(self.content, str):
            return self.content
        return "".join(part.text or part.refusal or "" for part in self.content or ())

    def thought(self) -> str:
        """The visible part of a reasoning item."""
        return "\n\n".join(part.text for part in self.summary or () if part.text) or self.text()


class Incomplete(Struct, frozen=True):
    reason: str | None = None


class Final(Struct, frozen=True):
    """The response object of the last event, or a complete response without streaming."""

    status: str | None = None
    output: tuple[Raw, ...] | None = None
    output_text: str | None = None
    usage: Usage | None = None
    error: Fault | str | None = None
    incomplete_details: Incomplete | None = None
    message: str | None = None
    object: str | None = None


def read_event(data: EventData) -> Event:
    return _events.read(data.data, data) if isinstance(data, LongEvent) else _events.read(data)


def read_output(raw: Raw, event: LongEvent | None = None) -> Output:
    """Read an item of `event`."""
    return _outputs.read(raw, event)


def read_final(data: EventData | Raw, event: LongEvent | None = None) -> Final:
    """Read the response at the end of `event`, or one without streaming."""
    if isinstance(data, LongEvent):
        return _finals.read(data.data, data)
    return _finals.read(data, event) if bytes(data).strip() else Final()


_events = Lenient(Event)
_outputs = Lenient(Output)
_finals = Lenient(Final)
