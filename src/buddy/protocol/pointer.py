"""JSON Pointers (RFC 6901), and payloads whose long texts are stored as blobs. A fast start uses it."""

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


def get(tree: "Any", path: str) -> "Any":
    for part in _parts(path):
        tree = tree[_key(tree, part)]
    return tree


def put(tree: "Any", path: str, value: object) -> None:
    """Replace the value at a path."""
    *parents, last = _parts(path)
    for part in parents:
        tree = tree[_key(tree, part)]
    tree[_key(tree, last)] = value


def restore(payload: "Any", contents: "Mapping[str, bytes]") -> None:
    """Replace previews in an event's payload by the blobs they stand for; those not given stay previews."""
    blobs: dict[str, str] = payload.pop("blobs", None) or {}
    for path, blob in blobs.items():
        content = contents.get(blob)
        if content is not None:
            is_text = isinstance(get(payload, path), str)
            put(payload, path, content.decode(errors="surrogatepass") if is_text else json.loads(content))


def escape(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def _key(tree: object, part: str) -> int | str:
    return int(part) if isinstance(tree, list) else part


def _parts(path: str) -> list[str]:
    return [part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:]]
