"""Open files that somebody else may have prepared: regular ones alone, so that nothing waits and nothing is triggered.

Invariants: a FIFO, a device or a socket is never opened for reading, not even if it takes the place of a regular file
meanwhile; what is read is bounded.
"""

import errno
import os
import stat
import sys

_PIECE = 1024 * 1024
_LEAST = 4 * 1024
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def open_regular(path: str, *, directory: int | None = None, follow: bool = False) -> int:
    """A descriptor for reading; OSError if it is not a regular file. Links are followed only on request."""
    # Inspected first: opening a device can already have an effect.
    check_regular(os.stat(path, dir_fd=directory, follow_symlinks=follow), path)
    opened = open_inspected(path, directory=directory, follow=follow)
    try:
        check_regular(os.fstat(opened), path)
    except OSError:
        os.close(opened)
        raise
    return opened


def open_inspected(path: str, *, directory: int | None = None, follow: bool = False) -> int:
    """The same for a file that was regular a moment ago; the caller inspects what was opened."""
    return os.open(path, _READ | (0 if follow else os.O_NOFOLLOW), dir_fd=directory)


def read_regular(path: str, limit: int, *, follow: bool = False) -> bytes:
    """At most `limit` bytes from the start of a regular file; OSError if it is none."""
    opened = open_regular(path, follow=follow)
    try:
        return read_up_to(opened, limit)
    finally:
        os.close(opened)


def read_up_to(opened: int, limit: int, expected: int = _PIECE) -> bytes:
    """At most `limit` bytes. `expected` is about how many there are: memory for more than that is not needed."""
    pieces: list[bytes] = []
    left, most = limit, min(max(expected, _LEAST) + 1, _PIECE)
    while left > 0 and (piece := os.read(opened, min(left, most))):
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)


def check_regular(info: os.stat_result, path: str) -> None:
    if not stat.S_ISREG(info.st_mode):
        raise OSError(errno.EINVAL, "not a regular file", path)


def path_of(directory: int) -> str | None:
    """Where an open directory is now, whatever led to it; None if this system cannot tell."""
    return os.readlink(f"/proc/self/fd/{directory}") if sys.platform == "linux" else None  # noqa: PTH115 - plain text
