"""Reads the JSON of servers that do not follow any schema into a struct with only the fields that Buddy uses.

Invariants: any JSON becomes the struct; a field of an unexpected type counts as missing, without affecting the others.
Only text that is not JSON raises `ProviderError`. A struct that forbids unknown fields and has one called `REST` on the
wire gets them there, except those that are null or empty.
"""

import re
from typing import Generic, TypeVar, get_args, get_origin

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from buddy.errors import ProviderError
from buddy.models.long_events import LongEvent

REST = "*"
MAX_REPAIRED = 256 * 1024
"""Bytes of a text that is repaired; repairing takes its time, and what needs it is short."""

_EMPTY: tuple[object, ...] = (None, "", [], {})

AnyStruct = TypeVar("AnyStruct", bound=Struct)


class Lenient(Generic[AnyStruct]):
    """Reads one shape, all of whose fields have defaults."""

    def __init__(self, shape: type[AnyStruct]) -> None:
        self._shape = shape
        self._decoder = msgspec.json.Decoder(shape)

    def read(self, data: bytes | Raw, event: LongEvent | None = None) -> AnyStruct:
        """Read a document, or a part of a long event, whose texts are restored."""
        try:
            found = self._decoder.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            found = salvage(_repair(bytes(data)), self._shape) or self._shape()
        return found if event is None else event.restore(found)


def salvage(raw: bytes | Raw, shape: type[AnyStruct]) -> AnyStruct | None:
    """Keep every field that has its type; None if it is not even an object."""
    try:
        parts = msgspec.json.decode(raw, type=dict[str, Raw])
    except (msgspec.DecodeError, RecursionError):
        return None
    good: dict[str, object] = {}
    for field in msgspec.structs.fields(shape):
        name = field.encode_name
        value = _field(parts.pop(name), field.type) if name in parts else UNSET
        if not isinstance(value, UnsetType):
            good[name] = value
    if any(field.encode_name == REST for field in msgspec.structs.fields(shape)):
        rest = {name: msgspec.json.decode(raw) for name, raw in parts.items()}
        good[REST] = {name: value for name, value in rest.items() if value not in _EMPTY}
    return msgspec.convert(good, shape, from_attributes=True)


def _field(raw: Raw, kind: object) -> object:
    """The value in its type, else what can be salvaged, else UNSET."""
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.DecodeError, RecursionError):
        pass
    for option in get_args(kind):
        saved = _option(raw, option)
        if not isinstance(saved, UnsetType):
            return saved
    return UNSET


def _option(raw: Raw, option: object) -> object:
    if isinstance(option, type) and issubclass(option, Struct):
        saved = salvage(raw, option)
        return UNSET if saved is None else saved
    if get_origin(option) is not tuple:
        return UNSET
    try:
        entries = msgspec.json.decode(raw, type=tuple[Raw, ...])
    except (msgspec.DecodeError, RecursionError):
        return UNSET
    saved_entries = (_option(entry, get_args(option)[0]) for entry in entries)
    return tuple(entry for entry in saved_entries if not isinstance(entry, UnsetType))


# Servers that escape all non-ASCII may split an emoji between two chunks: each half is a lone surrogate.
_LONE_SURROGATE = r"(?i)\\ud[89ab][0-9a-f]{2}(?!\\ud[c-f][0-9a-f]{2})|(?<!\\ud[89ab]..)\\ud[c-f][0-9a-f]{2}"


def _repair(data: bytes) -> bytes:
    if len(data) > MAX_REPAIRED:
        shown = data[:200].decode("utf-8", "replace")
        raise ProviderError(f"the server sent {len(data)} bytes of invalid JSON: {shown!r}", retryable=True)
    text = re.sub(_LONE_SURROGATE, r"\\ufffd", data.decode("utf-8", "replace"))
    repaired = text.encode()
    try:
        msgspec.json.decode(repaired)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ProviderError(f"the server sent invalid JSON: {text[:200]!r}", retryable=True) from error
    return repaired
