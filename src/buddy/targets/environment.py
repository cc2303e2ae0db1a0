"""The environment of a target's processes, and the lookup of programs that Buddy runs.

Invariants: no program is found through a relative path: it would be the workspace's own.
"""

import os
from collections.abc import Mapping

# Configuration and secrets of this process that commands must not see.
WITHHELD = frozenset({"BUDDY_API_KEY", "AGENT_API_KEY", "BUDDY_LOG", "BUDDY_FAULT", "BUDDY_FAULT_LOG"})


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of this process without the withheld variables, plus `more`."""
    kept = {name: value for name, value in os.environ.items() if name not in WITHHELD}
    merged = {**kept, **(more or {})}
    return {**merged, "PATH": _absolute(merged.get("PATH", os.defpath))}


def encode_variables(variables: Mapping[str, str]) -> dict[bytes, bytes]:
    return {os.fsencode(name): os.fsencode(value) for name, value in variables.items()}


def find_program(name: str) -> str | None:
    """The path of a program as our processes would find it."""
    for folder in _absolute(os.environ.get("PATH", os.defpath)).split(os.pathsep):
        path = f"{folder}/{name}"
        if os.access(path, os.X_OK) and not os.path.isdir(path):  # noqa: PTH112 - plain text
            return path
    return None


def _absolute(path: str) -> str:
    """Only the absolute entries: with others, a workspace's own `git` would run instead of the real one."""
    return os.pathsep.join(entry for entry in path.split(os.pathsep) if entry.startswith("/"))
