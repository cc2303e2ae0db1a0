"""Validates names of containers, hosts and tmux sessions before they appear on a command line.

Invariants: a valid name is one word, does not start with a dash, and has no special meaning for a shell or tmux.
"""

import re

from buddy.errors import ProtocolError

_CONTAINER = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,254}"
_USER = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}"
_HOST = rf"(?:{_USER}@)?(?:[A-Za-z0-9][A-Za-z0-9_.-]{{0,252}}|\[[0-9A-Fa-f:.]{{2,45}}\]|[0-9A-Fa-f:]{{2,45}})"
# In tmux targets, : and . are separators.
_SESSION = r"[A-Za-z0-9_][A-Za-z0-9_-]{0,63}"


def container(name: str) -> str:
    return _check(name, _CONTAINER, "container name", "letters, digits, _ . and -")


def host(name: str) -> str:
    return _check(name, _HOST, "ssh host", "[user@]host, as in your ssh configuration")


def session(name: str) -> str:
    return _check(name, _SESSION, "tmux session name", "letters, digits, _ and -")


def _check(name: str, pattern: str, what: str, wanted: str) -> str:
    if re.fullmatch(pattern, name) is None:
        raise ProtocolError("INVALID_REQUEST", f"{name[:80]!r} is not a valid {what}; use {wanted}")
    return name
