"""The methods of confining a command, in order of preference."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from buddy.targets.confine import bubblewrap
from buddy.targets.confine.policy import Plan

Wrap = Callable[[Plan, Sequence[str], str], list[str]]


def wrap_with_landlock(plan: Plan, argv: Sequence[str], cwd: str) -> list[str]:
    helper = Path(__file__).with_name("landlock.py")
    return [sys.executable, "-I", "-S", str(helper), msgspec.json.encode(plan).decode(), cwd, "--", *argv]


METHODS: dict[str, Wrap] = {"bubblewrap": bubblewrap.wrap, "landlock": wrap_with_landlock}
