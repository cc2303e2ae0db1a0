"""Moves long parts of an event into blobs, so that events stay small and nothing is lost.

A spilled string keeps its head as a preview; if long strings are not the cause, a list or object is left empty and its
JSON is the blob. `blobs` in the payload maps the field's path to the blob with its full content. Long strings are
measured, encoded and hashed in steps, each once.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, TypeAlias, cast

import msgspec

from buddy.protocol import pointer
from buddy.protocol.blobs import restore_body
from buddy.protocol.envelopes import Event
from buddy.protocol.events import EventBody
from buddy.steps import Steps, encode_text, hash_content, parts

SPILL_ABOVE = 32 * 1024
PREVIEW = 2 * 1024
MAX_DEPTH = 3
_BLOB_ENTRY = 70
_AT_ONCE = 512

Json: TypeAlias = "str | int | float | bool | list[Json] | dict[str, Json] | None"


def encode_long(body: EventBody) -> Steps[tuple[bytes, dict[str, bytes]]]:
    """The payload of an event that is too long for one, and its blobs with their content."""
    tree: dict[str, Any] = yield from _with_lists(msgspec.to_builtins(body, str_keys=True))
    blobs = yield from spill(tree, type(body))
    return msgspec.json.encode(tree), blobs


def spill(tree: dict[str, Any], shape: type[EventBody]) -> Steps[dict[str, bytes]]:
    """Cut the longest strings of a payload, in place, until it fits; returns the blobs with their content.

    `shape` decides what may be left empty: the payload must stay decodable.
    """
    store = _Spilled(tree)
    strings: list[tuple[str, str]] = []
    for number, (path, text) in enumerate(_strings(tree, "")):
        if len(text) > PREVIEW:
            strings.append((path, text))
        if number % _AT_ONCE == 0:
            yield
    strings.sort(key=lambda entry: -len(entry[1]))
    for path, _ in strings:
        pointer.put(tree, path, "")
    sizes: list[int] = []
    for _, text in strings:
        sizes.append((yield from _size_of(text)))
    # Counted, not encoded again each time: there may be hundreds of long strings.
    size = len(msgspec.json.encode(tree)) + sum(sizes)
    for number, (path, text) in enumerate(strings):
        if size <= SPILL_ABOVE and _fits_with(tree, strings[number:]):
            break
        yield from store.text(path, text)
        size += len(msgspec.json.encode(text[:PREVIEW])) - sizes[number] + len(path) + _BLOB_ENTRY
    while not _fits(tree):
        found = max(_spillable(tree, shape), key=lambda entry: len(entry[1]), default=None)
        if found is None:
            break
        yield from store.container(*found)
    return store.blobs


class _Spilled:
    """The parts of a payload that became blobs."""

    def __init__(self, tree: dict[str, Any]) -> None:
        self.blobs: dict[str, bytes] = {}
        self._paths: dict[str, str] = {}
        self._tree = tree

    def text(self, path: str, text: str) -> Steps[None]:
        content = yield from encode_text(text, "surrogatepass")
        yield from self.container(path, content, text[:PREVIEW])

    def container(self, path: str, content: bytes, left: Json) -> Steps[None]:
        blob = yield from hash_content(content)
        self.blobs[blob] = content
        self._paths[path] = blob
        pointer.put(self._tree, path, left)
        self._tree["blobs"] = self._paths
        # Parts of it that were cut before are in its blob, as previews: that blob must be restored first.
        for inner in [known for known in self._paths if known.startswith(path + "/")]:
            self._paths[inner] = self._paths.pop(inner)


def _size_of(text: str) -> Steps[int]:
    """The bytes of a text as JSON, without its quotation marks."""
    size = 0
    for part in parts(text):
        size += len(msgspec.json.encode(part)) - 2
        yield
    return size


def _fits_with(tree: dict[str, Any], strings: list[tuple[str, str]]) -> bool:
    """Put these strings back; returns whether the payload fits."""
    for path, text in strings:
        pointer.put(tree, path, text)
    return _fits(tree)


async def restore_spilled(event: Event, read: Callable[[str], Awaitable[bytes | None]]) -> EventBody | None:
    """The event's body with its spilled parts restored; None for a type this version does not know."""
    body = event.body()
    if body is None or not body.blobs:
        return body
    found = {blob: await read(blob) for blob in body.blobs.values()}
    return restore_body(event, {blob: content for blob, content in found.items() if content is not None})


def _with_lists(tree: Any) -> Steps[Any]:
    """The value as JSON would have it: with lists in place of tuples, which can't be changed."""
    yield
    match tree:
        case dict():
            entries = cast("dict[str, Any]", tree)
            for key, part in entries.items():
                if isinstance(part, dict | list | tuple):
                    entries[key] = yield from _with_lists(part)
            return entries
        case list() | tuple():
            items = list(cast("Sequence[Any]", tree))
            for at, part in enumerate(items):
                if isinstance(part, dict | list | tuple):
                    items[at] = yield from _with_lists(part)
            return items
        case _:
            return tree


def _strings(tree: Json, path: str) -> Iterator[tuple[str, str]]:
    match tree:
        case str():
            yield path, tree
        case dict():
            for key, part in tree.items():
                if (path, key) != ("", "blobs"):
                    yield from _strings(part, f"{path}/{pointer.escape(key)}")
        case list():
            for index, part in enumerate(tree):
                yield from _strings(part, f"{path}/{index}")
        case _:
            pass


def _fits(tree: Json) -> bool:
    return len(msgspec.json.encode(tree)) <= SPILL_ABOVE


def _spillable(tree: dict[str, Any], shape: type[EventBody]) -> Iterator[tuple[str, bytes, Json]]:
    """The lists and objects of the payload that may be empty: path, JSON, and the empty value that replaces them."""
    for path, part in _containers(tree, ""):
        left: Json = [] if isinstance(part, list) else {}
        pointer.put(tree, path, left)
        is_readable = _is_readable(tree, shape)
        pointer.put(tree, path, part)
        if is_readable:
            yield path, msgspec.json.encode(part), left


def _containers(tree: Json, path: str) -> Iterator[tuple[str, Json]]:
    """The outer lists and objects, down to the depth at which payloads have fields of any size."""
    entries = tree.items() if isinstance(tree, dict) else ()
    for key, part in entries:
        inner = f"{path}/{pointer.escape(key)}"
        if part and isinstance(part, dict | list) and inner != "/blobs":
            yield inner, part
            if inner.count("/") < MAX_DEPTH:
                yield from _containers(part, inner)


def _is_readable(tree: dict[str, Any], shape: type[EventBody]) -> bool:
    try:
        msgspec.convert(tree, shape)
    except msgspec.ValidationError:
        return False
    return True
