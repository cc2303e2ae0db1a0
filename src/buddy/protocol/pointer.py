"""JSON Pointers (RFC 6901). Nothing is imported here, because a fast start uses it."""

TYPE_CHECKING = False
if TYPE_CHECKING:
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


def escape(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def _key(tree: object, part: str) -> int | str:
    return int(part) if isinstance(tree, list) else part


def _parts(path: str) -> list[str]:
    return [part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:]]
