"""The small POSIX sh programs that do a target's work over there.

Invariants: what a model wrote reaches them as arguments or on stdin, never as a part of their text.
"""

from functools import cache
from importlib import resources
from typing import Literal

Name = Literal["run", "end", "files", "prepare", "pane", "follow", "finish", "leave", "isolation", "fence", "keys"]


@cache
def script_text(name: Name) -> str:
    return resources.files("buddy.targets.scripts").joinpath(f"{name}.sh").read_text(encoding="utf-8")


def script_argv(name: Name, *arguments: str) -> list[str]:
    """The program and its arguments, as one argv."""
    return ["sh", "-c", script_text(name), "buddy", *arguments]
