"""Free disk space: whether there is enough, and which errors mean that there is not.

Invariant: checking is cheap, because the file system is asked at most once per second.
"""

import errno
import os
from collections.abc import Callable
from pathlib import Path

MIN_FREE = 200 * 1024 * 1024
FULL_ERRNOS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_FRESH_MS = 1000


class DiskSpace:
    def __init__(self, place: Path, clock: Callable[[], int], min_free: int) -> None:
        self._place = place
        self._clock = clock
        self._min_free = min_free
        self._asked_at: int | None = None
        self._enough = True

    def is_enough(self) -> bool:
        now = self._clock()
        if self._asked_at is None or not 0 <= now - self._asked_at < _FRESH_MS:
            found = os.statvfs(self._place)
            self._enough = found.f_bavail * found.f_frsize >= self._min_free
            self._asked_at = now
        return self._enough


def is_full(error: BaseException) -> bool:
    """Whether an error of the operating system means that the disk is full."""
    return isinstance(error, OSError) and error.errno in FULL_ERRNOS
