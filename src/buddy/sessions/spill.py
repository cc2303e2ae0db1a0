"""Moves long parts of an event into blobs, so that events stay small and nothing is lost.

A spilled string keeps its head as a preview; if long strings are not the cause, a list or object is left empty and its
JSON is the blob. `blobs` in the payload maps the field's path to the blob with its full content.
"""

import hashlib
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, TypeAlias

import msgspec

from buddy.protocol import pointer
from buddy.protocol.blobs import restore_body
from buddy.protocol.envelopes import Event
from buddy.protocol.events import EventBody

SPILL_ABOVE = 32 * 1024
PREVIEW = 2 * 1024
MAX_DEPTH = 3
_BLOB_ENTRY = 70

Json: TypeAlias = "str | int | float | bool | list[Json] | dict[str, Json] | None"


def spill(tree: dict[str, Any], shape: type[EventBody]) -> dict[str, bytes]:
    """Cut the longest strings of a payload, in place, until it fits; returns the blobs with their content.

    `shape` decides what may be left empty: the payload must stay decodable.
    """
    blobs: dict[str, bytes] = {}
    paths: dict[str, str] = {}

    def keep(path: str, content: bytes, left: Json) -> None:
        blob = hashlib.sha256(content).hexdigest()
        blobs[blob] = content
        paths[path] = blob
        pointer.put(tree, path, left)
        tree["blobs"] = paths

    size = len(msgspec.json.encode(tree))
    for path, text in sorted(_strings(tree, ""), key=lambda entry: -len(entry[1])):
        # Counted, not encoded again each time: there may be hundreds of long strings.
        if len(text) <= PREVIEW or (size <= SPILL_ABOVE and _fits(tree)):
            break
        keep(path, text.encode(errors="surrogatepass"), text[:PREVIEW])
        size -= len(msgspec.json.encode(text)) - len(msgspec.json.encode(text[:PREVIEW]))
        size += len(path) + _BLOB_ENTRY
    while not _fits(tree):
        found = max(_spillable(tree, shape), key=lambda entry: len(entry[1]), default=None)
        if found is None:
            break
        keep(*found)
        # Parts of it that were cut before are in its blob, as previews: that blob must be restored first.
        inner = [path for path in paths if path.startswith(found[0] + "/")]
        for path in inner:
            paths[path] = paths.pop(path)
    return blobs


async def restore_spilled(event: Event, read: Callable[[str], Awaitable[bytes | None]]) -> EventBody | None:
    """The event's body with its spilled parts restored; None for a type this version does not know."""
    body = event.body()
    if body is None or not body.blobs:
        return body
    found = {blob: await read(blob) for blob in body.blobs.values()}
    return restore_body(event, {blob: content for blob, content in found.items() if content is not None})


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
