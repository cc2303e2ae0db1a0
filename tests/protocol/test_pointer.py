"""Where in a payload something is."""

from typing import Any

import pytest

from buddy.protocol import pointer


@pytest.mark.parametrize(("path", "value"), [("/a", {"b/c": [1, {"~": "x"}]}), ("/a/b~1c/0", 1), ("/a/b~1c/1/~0", "x")])
def test_what_is_at_a_path_is_found_and_set(path: str, value: object) -> None:
    tree: dict[str, Any] = {"a": {"b/c": [1, {"~": "x"}]}}
    assert pointer.get(tree, path) == value
    pointer.put(tree, path, "new")
    assert pointer.get(tree, path) == "new"


@pytest.mark.parametrize("key", ["plain", "a/b", "~", "~1", "/~0/"])
def test_any_key_can_be_a_step(key: str) -> None:
    assert pointer.get({key: 1}, f"/{pointer.escape(key)}") == 1
