"""Paths that a client sends."""

from buddy.errors import ProtocolError


def check_path(path: str) -> None:
    if "\0" in path:
        raise ProtocolError("INVALID_REQUEST", "rootPath contains a NUL character")
