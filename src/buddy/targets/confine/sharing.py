"""How processes that run confined commands in one workspace share its placeholders.

Each holds a shared lock on the workspace's directory while its commands run, and the last one cleans up.

Invariants: the lock ends with the process, however that ends; the holder of the exclusive lock is alone, so nothing
that is removed under it is a part of another process's sandbox.
"""

import fcntl
import os
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path

# When a placeholder claims to have been changed, so that other processes know it for one. Changing it ends that.
MARKED_AT = 0x62756464_79
LOCK = "confined.lock"


class WorkspaceUse:
    """This process's use of a workspace. Locking waits only while another process cleans up."""

    def __init__(self, root: str) -> None:
        self.root = root
        self._opened = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        fcntl.flock(self._opened, fcntl.LOCK_SH)

    def become_exclusive(self) -> bool:
        """Whether no other process uses it; none can start to before `end`."""
        try:
            fcntl.flock(self._opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def end(self) -> None:
        os.close(self._opened)


@contextmanager
def exclusive_use(roots: Iterable[str]) -> Generator[bool]:
    """Whether no other process uses these workspaces; none can start to meanwhile. One that is gone is used by none."""
    uses = [WorkspaceUse(root) for root in roots if root and Path(root).is_dir()]
    try:
        yield all(use.become_exclusive() for use in uses)
    finally:
        for use in uses:
            use.end()


def mark_placeholder(place: str) -> None:
    os.utime(place, ns=(MARKED_AT, MARKED_AT))


def is_marked(place: str) -> bool:
    try:
        return has_mark(os.lstat(place))
    except OSError:
        return False


def has_mark(info: os.stat_result) -> bool:
    return info.st_mtime_ns == MARKED_AT


@contextmanager
def keep_mark(folder: str) -> Generator[None]:
    """A placeholder remains one when another is put into it or removed from it."""
    was_marked = is_marked(folder)
    yield
    if was_marked:
        mark_placeholder(folder)


@contextmanager
def one_at_a_time(state_dir: Path | None) -> Generator[None]:
    """Of all processes with this state directory, one makes or removes placeholders; it takes milliseconds."""
    if state_dir is None or not state_dir.is_dir():
        yield
        return
    opened = os.open(state_dir / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX)
        yield
    finally:
        os.close(opened)
