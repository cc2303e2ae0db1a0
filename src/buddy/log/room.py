"""Free disk space: whether there is enough, and which errors mean that there is not.

Invariant: the answer is about now. Asking takes about a microsecond, and a disk can fill within a second.
"""

import errno
import os
from pathlib import Path

MIN_FREE = 200 * 1024 * 1024
FULL_ERRNOS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class DiskSpace:
    def __init__(self, place: Path, min_free: int) -> None:
        self._place = place
        self._min_free = min_free

    def is_enough(self) -> bool:
        found = os.statvfs(self._place)
        return found.f_bavail * found.f_frsize >= self._min_free


def is_full(error: BaseException) -> bool:
    """Whether an error of the operating system means that the disk is full."""
    return isinstance(error, OSError) and error.errno in FULL_ERRNOS
