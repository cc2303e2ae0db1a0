"""JSON with strings of megabytes, encoded and decoded in steps.

Invariants: the result is that of `msgspec.json`. Strings of more than `LONG` bytes are taken apart; the rest is handled
at once, so its size is limited: `Layout` says whether a document is worth decoding.
"""

import os
import re
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import msgspec
from msgspec import Raw

from buddy.steps import PART, Steps, encode_text, parts

LONG = 16 * 1024
MAX_DEPTH = 64
"""Levels of lists and objects."""
MAX_VALUES = 100_000
"""Commas and opening brackets."""

_SIGN = re.compile(rb'["\[\]{},]')
# Complete characters of a string: neither an escape nor a pair of surrogates is cut.
_CHARACTERS = re.compile(
    rb'(?:[^"\\]++|\\[^u]|\\u(?:[dD][89abAB][0-9a-fA-F]{2}\\u[0-9a-fA-F]{4}|(?![dD][89abAB])[0-9a-fA-F]{4}))*+'
)
# The same, but only to find its end.
_INSIDE = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)
# A text that ends in a character which is no part of an escape.
_WHOLE = re.compile(rb'.*[\x00-\x7f](?<![0-9a-fA-Fu\\/bfnrt"])', re.DOTALL)
_COLON = re.compile(rb"[ \t\r\n]{0,100}:")
_TAIL = 64
_AT_ONCE = 1024


class Layout(NamedTuple):
    """What a document consists of: its long strings (without quotation marks), levels, and values.

    Counting ends at the limits.
    """

    strings: tuple[tuple[int, int], ...]
    depth: int
    values: int
    has_long_name: bool

    @property
    def problem(self) -> str:
        """Why it should not be decoded; empty if it may be."""
        if self.depth > MAX_DEPTH:
            return f"it is nested deeper than {MAX_DEPTH} levels"
        if self.values > MAX_VALUES:
            return f"it has more than {MAX_VALUES} values"
        return f"one of its names is longer than {LONG} bytes" if self.has_long_name else ""


class Shortened(NamedTuple):
    """A document with a name in the place of each long string, and the texts they stand for, in order.

    Nobody who wrote the document could know the names.
    """

    data: bytes
    texts: dict[str, str]


def examine(data: bytes, max_values: int = MAX_VALUES) -> Steps[Layout]:
    """Find out what a document consists of; whether it is JSON is not checked."""
    scan = _Scan(data, max_values)
    while not scan.is_over:
        scan.step()
        yield
    return Layout(tuple(scan.strings), scan.deepest, scan.values, scan.has_long_name)


def decode(text: str | bytes) -> Steps[Any]:
    """Read a document; `msgspec.DecodeError` if it is not JSON or should not be decoded."""
    data = text if isinstance(text, bytes) else (yield from encode_text(text))
    if len(data) <= LONG:
        return msgspec.json.decode(data)
    layout = yield from examine(data)
    if layout.problem:
        raise msgspec.DecodeError(f"JSON is not decoded: {layout.problem}")
    short = yield from shorten(data, layout)
    value = msgspec.json.decode(short.data)
    return (yield from _put_back(value, short.texts)) if short.texts else value


def shorten(data: bytes, layout: Layout) -> Steps[Shortened]:
    """Take the long strings out of a document; `msgspec.DecodeError` if one of them is not JSON."""
    prefix = os.urandom(12).hex()
    pieces: list[bytes] = []
    texts: dict[str, str] = {}
    done = 0
    for number, (start, end) in enumerate(layout.strings):
        name = f"{prefix}.{number}"
        texts[name] = yield from _decode_string(data, start, end)
        pieces += (data[done:start], name.encode())
        done = end
    return Shortened(b"".join([*pieces, data[done:]]), texts)


def encode(value: Any) -> Steps[bytes]:
    """Write a value that consists of dicts, lists, texts and numbers."""
    return msgspec.json.encode((yield from _encode_strings(value)))


def encode_string(text: str) -> Steps[bytes]:
    """A text as JSON, with its quotation marks."""
    if len(text) <= LONG:
        return msgspec.json.encode(text)
    pieces = [b'"']
    for part in parts(text):
        pieces.append(msgspec.json.encode(part)[1:-1])
        yield
    return b"".join([*pieces, b'"'])


class _Scan:
    """A document that is read from its start, window by window."""

    def __init__(self, data: bytes, max_values: int) -> None:
        self.strings: list[tuple[int, int]] = []
        self.deepest = self.values = 0
        self.has_long_name = False
        self._data = data
        self._max_values = max_values
        self._at = 0
        self._depth = 0
        self._string = -1  # where the string starts that reaches beyond the last window

    @property
    def is_over(self) -> bool:
        return self._at >= len(self._data) or self.deepest > MAX_DEPTH or self.values > self._max_values

    def step(self) -> None:
        """Read to the end of a window, or less if there is much in it."""
        window = min(self._at + PART, len(self._data))
        if self._string >= 0:
            self._read_string(window)
        for _ in range(_AT_ONCE):
            found = _SIGN.search(self._data, self._at, window) if self._string < 0 else None
            if found is None:
                break
            self._at = found.end()
            if found[0] == b'"':
                self._string = self._at
                self._read_string(window)
            else:
                self._count(found[0])
        else:
            return
        if self._string < 0:
            self._at = window

    def _read_string(self, window: int) -> None:
        """Read to the end of a string, or of the window; what is left then starts with a complete character."""
        quote = self._data.find(b'"', self._at, window)
        end = window if quote < 0 else quote
        if _ends_escaped(self._data[self._at : end]):
            found = _INSIDE.match(self._data, self._at, window)
            end = found.end() if found else end
        self._at = end
        if end < window and self._data[end : end + 1] == b'"':
            self._end_string()
        elif window == len(self._data):
            self._at = window

    def _end_string(self) -> None:
        if self._at - self._string > LONG:
            self.strings.append((self._string, self._at))
            self.has_long_name |= _COLON.match(self._data, self._at + 1) is not None
        self._string = -1
        self._at += 1

    def _count(self, sign: bytes) -> None:
        if sign in b"]}":
            self._depth -= 1
            return
        self.values += 1
        if sign != b",":
            self._depth += 1
            self.deepest = max(self.deepest, self._depth)


def _decode_string(data: bytes, start: int, end: int) -> Steps[str]:
    pieces: list[str] = []
    while start < end:
        cut = _cut(data, start, end)
        if cut <= start:
            raise msgspec.DecodeError(f"JSON is malformed: invalid escape in a string (byte {start})")
        pieces.append(msgspec.json.decode(b'"%b"' % data[start:cut], type=str))
        start = cut
        yield
    return "".join(pieces)


def _cut(data: bytes, start: int, end: int) -> int:
    """The end of a part of a string, between two characters."""
    stop = start + PART
    if stop >= end:
        return end
    if whole := _WHOLE.match(data, stop - _TAIL, stop):
        return whole.end()
    found = _CHARACTERS.match(data, start, stop)
    cut = found.end() if found else start
    while cut < end and data[cut] & 0xC0 == 0x80:  # inside of one that has several bytes
        cut -= 1
    return cut


def _ends_escaped(text: bytes) -> bool:
    """Whether the character after this text is escaped."""
    return (len(text) - len(text.rstrip(b"\\"))) % 2 == 1


def _put_back(value: Any, texts: dict[str, str]) -> Steps[Any]:
    """Replace the names in a decoded value by their texts."""
    yield
    match value:
        case str():
            return texts.get(value, value)
        case dict():
            entries = cast("dict[str, Any]", value)
            for key, entry in entries.items():
                if isinstance(entry, str | dict | list):
                    entries[key] = yield from _put_back(entry, texts)
            return entries
        case list():
            items = cast("list[Any]", value)
            for at, entry in enumerate(items):
                if isinstance(entry, str | dict | list):
                    items[at] = yield from _put_back(entry, texts)
            return items
        case _:
            return value


def _encode_strings(value: Any) -> Steps[Any]:
    """A copy of the value in which the long texts are encoded."""
    match value:
        case str() if len(value) > LONG:
            text = yield from encode_string(value)
            yield
            return Raw(text)
        case dict():
            entries: dict[str, Any] = {}
            for key, entry in cast("dict[str, Any]", value).items():
                entries[key] = yield from _encode_strings(entry)
            return entries
        case list() | tuple():
            items: list[Any] = []
            for entry in cast("Sequence[Any]", value):
                encoded = yield from _encode_strings(entry)
                items.append(encoded)
            return items
        case _:
            return value
