"""Change a small file that other processes change, too.

Invariants: one process at a time reads and replaces it; a reader sees the old content or the new, never a part, also
after a power loss; the file is readable by its owner alone; a symbolic link is not followed.
"""

import fcntl
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

_CREATE = os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def locked(path: Path) -> Generator[None]:
    """Hold the lock of a file, which need not exist; its directory is created."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = os.open(path.with_name(f".{path.name}.lock"), os.O_RDWR | _CREATE, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def replace_content(path: Path, content: bytes) -> None:
    """Give a file new content in one step; the caller holds its lock."""
    fresh = path.with_name(f".{path.name}.new")
    fresh.unlink(missing_ok=True)
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_EXCL | _CREATE, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
