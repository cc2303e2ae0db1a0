"""Empty directories that wait for the next command: moving one takes a fraction of making and removing it.

A file system that discards freed blocks at once lets each removal wait for the disk.

Invariants: all is done under the lock of `one_at_a_time`; nothing is ever replaced; what is taken or kept is an empty
placeholder with its mark, also if somebody who has it open uses it meanwhile; what cannot be moved, as between file
systems, is made and removed.
"""

import ctypes
import os
from contextlib import suppress
from pathlib import Path

from buddy.targets.confine.sharing import is_marked

FOLDER = "spares"
MOST = 64
AT_FDCWD, NO_REPLACE = -100, 1


class SpareDirectories:
    """Those of one state directory, which other processes use, too."""

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder / FOLDER)
        self._names: list[str] | None = None
        self._made = 0

    def take(self, place: str) -> bool:
        """Whether one was moved to `place`, where nothing was."""
        names = self._known()
        while names:
            name = names.pop()
            spare = f"{self._folder}/{name}"
            if not _is_unused(spare):
                continue  # it is gone, or somebody had it open and has put something into it
            if not _move(spare, place):
                names.append(name)
                return False  # not between these places
            if _is_unused(place):
                return True
            _move(place, spare)
        return False

    def keep(self, place: str) -> bool:
        """Whether the placeholder was moved away, to be taken later."""
        names = self._known()
        if len(names) >= MOST or not is_marked(place):
            return False
        self._made += 1
        name = f"{os.getpid()}-{self._made}"
        kept = f"{self._folder}/{name}"
        if not _move(place, kept):
            return False
        if not _is_unused(kept):
            _move(kept, place)  # somebody has just put something into it
            return False
        names.append(name)
        return True

    def _known(self) -> list[str]:
        if self._names is None:
            self._names = []
            with suppress(OSError):
                os.makedirs(self._folder, mode=0o700, exist_ok=True)  # noqa: PTH103 - plain text
                self._names += os.listdir(self._folder)  # noqa: PTH208 - plain text
        return self._names


def _is_unused(place: str) -> bool:
    return is_marked(place) and not os.listdir(place)  # noqa: PTH208 - plain text


def _move(source: str, place: str) -> bool:
    if not hasattr(_libc, "renameat2"):
        return False
    renamed: int = _libc.renameat2(AT_FDCWD, os.fsencode(source), AT_FDCWD, os.fsencode(place), NO_REPLACE)
    return renamed == 0


_libc = ctypes.CDLL(None)
