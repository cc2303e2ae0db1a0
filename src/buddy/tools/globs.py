"""Globs over paths: `*` and `?` stay within a name, `**` crosses directories, `{a,b}` is one or the other.

Invariants: matching takes time linear in the pattern for each name, so no pattern can make it hang. A pattern without a
slash matches the file's name in any directory.
"""

import fnmatch
import re
from collections.abc import Callable, Sequence

from buddy.errors import ToolError

MAX_LENGTH = 1000
MAX_SEGMENTS = 50
MAX_CHOICES = 64

_BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")

Name = Callable[[str], object]


class Glob:
    def __init__(self, pattern: str) -> None:
        if not pattern or len(pattern) > MAX_LENGTH or pattern.startswith("!") or re.search(r"[\0\n]", pattern):
            raise ToolError(f"invalid glob {pattern[:80]!r}; give one such as '*.py' or 'src/**/*.ts'")
        self._choices = [_segments(choice) for choice in _expand(pattern)]

    def matches(self, path: str) -> bool:
        names = path.split("/")
        return any(_match(segments, names) for segments in self._choices)


def _expand(pattern: str) -> list[str]:
    done: list[str] = []
    waiting = [pattern]
    while waiting:
        choice = waiting.pop()
        braces = _BRACES.search(choice)
        if braces is None:
            done.append(choice)
        else:
            waiting += [choice[: braces.start()] + part + choice[braces.end() :] for part in braces[1].split(",")]
        if len(done) + len(waiting) > MAX_CHOICES:
            raise ToolError(f"the glob {pattern[:80]!r} has more than {MAX_CHOICES} choices; give a simpler one")
    return done


def _segments(pattern: str) -> list[Name | None]:
    """What each name must match; None stands for any number of names."""
    parts = [part for part in pattern.removeprefix("/").split("/") if part not in ("", ".")]
    if "/" not in pattern:
        parts = ["**", *parts]
    if len(parts) > MAX_SEGMENTS:
        raise ToolError(f"the glob {pattern[:80]!r} is too deep; give a simpler one")
    return [None if part == "**" else re.compile(fnmatch.translate(part)).match for part in parts]


def _match(segments: Sequence[Name | None], names: Sequence[str]) -> bool:
    """Walk the names once, tracking every position in the pattern that they can have reached."""
    at = _with_skips({0}, segments)
    for name in names:
        ahead = {place for place in at if place < len(segments) and segments[place] is None}
        ahead |= {place + 1 for place in at if place < len(segments) and _is_like(segments[place], name)}
        at = _with_skips(ahead, segments)
    return len(segments) in at


def _is_like(segment: Name | None, name: str) -> bool:
    return segment is not None and segment(name) is not None


def _with_skips(at: set[int], segments: Sequence[Name | None]) -> set[int]:
    """`**` may also match nothing."""
    for place in range(len(segments)):
        if place in at and segments[place] is None:
            at.add(place + 1)
    return at
