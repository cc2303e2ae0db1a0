"""Events of a model that are longer than usual: their long texts are decoded in steps, the rest at once.

Invariants: what is read of such an event is what would be read of it at once; one with more values than a model has any
use for is refused.
"""

from typing import Any, TypeVar, cast

from msgspec import DecodeError, Struct
from msgspec.structs import force_setattr

from buddy.errors import ProviderError
from buddy.long_json import examine, shorten
from buddy.steps import PART, Steps

MAX_VALUES = 250_000

Value = TypeVar("Value")


class LongEvent(Struct, frozen=True):
    """An event in which names stand for the long texts."""

    data: bytes
    texts: dict[str, str]
    source: bytes
    spans: tuple[tuple[int, int], ...]

    def restore(self, value: Value) -> Value:
        """The same value with the texts in it; structs are changed, not copied."""
        return cast("Value", self._restore(value))

    def restore_raw(self, raw: bytes) -> bytes:
        """A part of the event as the server sent it."""
        for name, (start, end) in zip(self.texts, self.spans, strict=True):
            raw = raw.replace(name.encode(), self.source[start:end])
        return raw

    def _restore(self, value: Any) -> Any:
        match value:
            case str():
                return self.texts.get(value, value)
            case Struct():
                for name in value.__struct_fields__:
                    force_setattr(value, name, self._restore(getattr(value, name)))
                return value
            case tuple():
                return tuple(map(self._restore, cast("tuple[Any, ...]", value)))
            case list():
                return list(map(self._restore, cast("list[Any]", value)))
            case dict():
                return {key: self._restore(part) for key, part in cast("dict[str, Any]", value).items()}
            case _:
                return value


EventData = bytes | LongEvent


def size_of(data: EventData) -> int:
    """The bytes that the server sent."""
    return len(data.source if isinstance(data, LongEvent) else data)


def is_end(data: EventData) -> bool:
    """Whether it says that the stream is over."""
    return isinstance(data, bytes) and data.strip() == b"[DONE]"


def read_long(data: bytes) -> Steps[EventData]:
    """An event as it can be read soon; a short one, and what is not JSON, as it is."""
    if len(data) <= PART:
        return data
    layout = yield from examine(data, MAX_VALUES)
    if layout.values > MAX_VALUES:
        raise ProviderError(f"the server sent an event of more than {MAX_VALUES} values", retryable=False)
    if layout.has_long_name or not layout.strings:
        return data
    try:
        short = yield from shorten(data, layout)
    except DecodeError:
        return data
    return LongEvent(short.data, short.texts, data, layout.strings)
