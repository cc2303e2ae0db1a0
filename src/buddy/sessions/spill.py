"""Long strings leave an event for a blob: the frame stays small, and nothing is lost.

A spilled field keeps its head as a preview; `blobs` in the payload maps the field's path to the blob with the whole.
"""

import hashlib
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, TypeAlias

import msgspec

from buddy.protocol.envelopes import Event
from buddy.protocol.events import EVENTS, EventBody

SPILL_ABOVE = 32 * 1024
PREVIEW = 2 * 1024

Json: TypeAlias = "str | int | float | bool | list[Json] | dict[str, Json] | None"


def spill(tree: dict[str, Any]) -> dict[str, bytes]:
    """Cut the longest strings of a payload, in place, until it fits; give the blobs that hold them."""
    blobs: dict[str, bytes] = {}
    paths: dict[str, str] = {}
    while len(msgspec.json.encode(tree)) > SPILL_ABOVE:
        found = max(_strings(tree, ""), key=lambda entry: len(entry[1]), default=None)
        if found is None or len(found[1]) <= PREVIEW:
            break
        path, text = found
        content = text.encode(errors="surrogatepass")
        blob = hashlib.sha256(content).hexdigest()
        blobs[blob] = content
        paths[path] = blob
        _put(tree, path, text[:PREVIEW])
        tree["blobs"] = paths
    return blobs


async def whole_body(event: Event, read: Callable[[str], Awaitable[bytes | None]]) -> EventBody | None:
    """The event's body with its spilled strings put back; None for a type this version does not know."""
    body = event.body()
    if body is None or not body.blobs:
        return body
    tree: dict[str, Any] = msgspec.to_builtins(body)
    for path, blob in body.blobs.items():
        content = await read(blob)
        if content is not None:
            _put(tree, path, content.decode(errors="surrogatepass"))
    del tree["blobs"]
    return msgspec.convert(tree, EVENTS[event.type])


def _strings(tree: Json, path: str) -> Iterator[tuple[str, str]]:
    match tree:
        case str():
            yield path, tree
        case dict():
            for key, part in tree.items():
                if (path, key) != ("", "blobs"):
                    yield from _strings(part, f"{path}/{_escape(key)}")
        case list():
            for index, part in enumerate(tree):
                yield from _strings(part, f"{path}/{index}")
        case _:
            pass


def _put(tree: Json, path: str, text: str) -> None:
    """Set the string at a JSON Pointer."""
    *parents, last = [part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:]]
    for part in parents:
        if isinstance(tree, list):
            tree = tree[int(part)]
        elif isinstance(tree, dict):
            tree = tree[part]
    if isinstance(tree, list):
        tree[int(last)] = text
    elif isinstance(tree, dict):
        tree[last] = text


def _escape(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
