"""A value that is computed from files, for as long as none of them may have changed.

Invariant: a change is never missed. Every file and folder that the value depends on is compared by identity, size and
times with what it was before it was read; if one of them had just changed then, the value is computed again, since two
changes can have the same time.
"""

import os
import time
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

SETTLED_NS = 100_000_000
"""How long ago the last change must be: the times of files advance in steps."""

T = TypeVar("T")
Stamp = tuple[int, int, int, int, int, int] | None


class Dependencies:
    """Paths that decide a result, each added before it is looked at; a folder stands for the names in it."""

    def __init__(self) -> None:
        self._stamps: dict[str, Stamp] = {}
        self._newest = 0

    def add(self, path: str) -> None:
        if path not in self._stamps:
            found = self._stamps[path] = _stamp(path)
            self._newest = max(self._newest, *found[4:]) if found is not None else self._newest

    def update(self, paths: Iterable[str]) -> None:
        for path in paths:
            self.add(path)

    def are_same(self) -> bool:
        return all(_stamp(path) == stamp for path, stamp in self._stamps.items())

    def are_settled(self, now: int) -> bool:
        """Whether a change since this time would be seen."""
        return self._newest < now - SETTLED_NS


class FileCache(Generic[T]):
    """`compute` adds what its result depends on.

    Threads may use it at the same time: at worst, both compute the same.
    """

    def __init__(self, compute: Callable[[Dependencies], T]) -> None:
        self._compute = compute
        self._known: tuple[Dependencies, T] | None = None

    def get(self) -> T:
        known = self._known
        if known is not None and known[0].are_same():
            return known[1]
        looked, started = Dependencies(), time.time_ns()
        value = self._compute(looked)
        self._known = (looked, value) if looked.are_settled(started) else None
        return value

    def is_current(self) -> bool:
        """Whether nothing needs to be computed."""
        known = self._known
        return known is not None and known[0].are_same()


def _stamp(path: str) -> Stamp:
    try:
        found = os.stat(path)  # noqa: PTH116 - thousands of them: building Path objects takes longer
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino, found.st_mode, found.st_size, found.st_mtime_ns, found.st_ctime_ns
