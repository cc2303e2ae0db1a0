"""The environment that a target's processes get, and where our own programs are looked for.

Invariants: no program is found by a relative path: it would be the workspace's own.
"""

import os
from collections.abc import Mapping

# What configures this process, or is its secret, is not a command's business.
WITHHELD = frozenset({"BUDDY_API_KEY", "AGENT_API_KEY", "BUDDY_FAULT", "BUDDY_FAULT_LOG"})


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's own, without what is withheld, and with `more`."""
    kept = {name: value for name, value in os.environ.items() if name not in WITHHELD}
    whole = {**kept, **(more or {})}
    return {**whole, "PATH": _absolute(whole.get("PATH", os.defpath))}


def encoded(variables: Mapping[str, str]) -> dict[bytes, bytes]:
    return {os.fsencode(name): os.fsencode(value) for name, value in variables.items()}


def find_program(name: str) -> str | None:
    """Where a program is that our processes, with this environment, would start by its name."""
    for folder in _absolute(os.environ.get("PATH", os.defpath)).split(os.pathsep):
        path = f"{folder}/{name}"
        if os.access(path, os.X_OK) and not os.path.isdir(path):  # noqa: PTH112 - plain text
            return path
    return None


def _absolute(path: str) -> str:
    """Only the absolute entries: any other would have a workspace's own `git` run instead of the real one."""
    return os.pathsep.join(entry for entry in path.split(os.pathsep) if entry.startswith("/"))
