"""Which processes use a state directory: those with an open log share a lock, and whoever migrates or replaces the log
is alone.

Invariants: the lock ends with the process, however that ends; a process of an older version that knows nothing of it is
known by the daemon's lock.
"""

import errno
import fcntl
import os
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from buddy.errors import UserError

LOCK, DAEMON_LOCK = "buddy.lock", "daemon.lock"
RESTORE_NOTE = "restore.json"
"""In the directory while the files of a backup and those before change places."""
_POLL_SECONDS = 0.02


def check_restored(state_dir: Path) -> None:
    """UserError if a restore ended in the middle: what is there is neither the old state nor the new."""
    if (state_dir / RESTORE_NOTE).exists():
        raise UserError(
            f"a restore of {state_dir} was interrupted",
            hint="run buddy restore again, with any backup; it first puts back what was there",
        )


def find_users(state_dir: Path) -> list[int]:
    """The processes that have the lock of a state directory open, as far as the system shows them."""
    lock = (state_dir / LOCK).resolve()
    found: set[int] = set()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or is another user's
            if any(file.readlink() == lock for file in (process / "fd").iterdir()):
                found.add(int(process.name))
    return sorted(found)


class StateUse:
    """This process's use of a state directory; it waits for others for up to `wait` seconds."""

    def __init__(self, state_dir: Path, wait: float) -> None:
        self._state_dir = state_dir
        self._wait = wait
        try:
            self._opened = os.open(state_dir / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            hint = "free some disk and try again" if is_full else "check its owner and mode; remove it if it is a link"
            message = f"cannot lock {state_dir / LOCK}: {error.strerror}"
            raise UserError(message, hint=hint, exit_code=75 if is_full else 64) from error

    def share(self) -> None:
        """Use it together with others; UserError if another process stays alone in it."""
        deadline = time.monotonic() + self._wait
        while not self._try(fcntl.LOCK_SH):
            if time.monotonic() >= deadline:
                raise UserError(
                    f"{self._state_dir} is being restored or migrated by another process",
                    hint="try again when that has ended",
                    exit_code=75,
                )
            time.sleep(_POLL_SECONDS)
        check_restored(self._state_dir)

    @contextmanager
    def alone(self, is_needed: Callable[[], bool] = lambda: True) -> Generator[None]:
        """Use it alone, then together with others; UserError if others stay.

        As soon as it is no longer needed, because one of the others has done the work, it is shared with them.
        """
        deadline = time.monotonic() + self._wait
        while is_needed():
            has_daemon = self._has_daemon()
            if not has_daemon and self._try(fcntl.LOCK_EX):
                break
            if time.monotonic() >= deadline:
                others = [pid for pid in find_users(self._state_dir) if pid != os.getpid()]
                which = f" ({', '.join(map(str, others))})" if others else ""
                what = "a daemon is running on" if has_daemon else f"another Buddy process{which} uses"
                raise UserError(
                    f"{what} {self._state_dir}, so it cannot be changed now",
                    hint="buddy daemon stop; or wait until the process has ended",
                    exit_code=75,
                )
            time.sleep(_POLL_SECONDS)
        else:
            self.share()
        try:
            yield
        finally:
            fcntl.flock(self._opened, fcntl.LOCK_SH)

    def end(self) -> None:
        if self._opened >= 0:
            os.close(self._opened)
            self._opened = -1

    def _try(self, how: int) -> bool:
        try:
            fcntl.flock(self._opened, how | fcntl.LOCK_NB)
        except BlockingIOError:
            # Others may be waiting to be alone, too, so nothing is held meanwhile.
            fcntl.flock(self._opened, fcntl.LOCK_UN)
            return False
        return True

    def _has_daemon(self) -> bool:
        """Whether another process is this directory's daemon."""
        try:
            with (self._state_dir / DAEMON_LOCK).open("rb") as file:
                if file.read(32).strip() == b"%d" % os.getpid():
                    return False
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False
