"""Paths that a client sends."""

from buddy.errors import ProtocolError


def check_path(path: str) -> None:
    """Refuse a relative one, too: it would mean a folder of the daemon's, not of the client's."""
    if "\0" in path:
        raise ProtocolError("INVALID_REQUEST", "rootPath contains a NUL character")
    if not path.startswith("/"):
        raise ProtocolError("INVALID_REQUEST", "rootPath must be absolute")
