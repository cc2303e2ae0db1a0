"""Which processes use a state directory: those with an open log share a lock, and whoever migrates or replaces the log
is alone.

Invariants: the lock ends with the process, however that ends; a process of an older version that knows nothing of it is
known by the daemon's lock.
"""

import errno
import fcntl
import os
import time
from collections.abc import Generator
from contextlib import contextmanager
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
        if not self._lock(fcntl.LOCK_SH):
            raise UserError(
                f"{self._state_dir} is being restored or migrated by another process",
                hint="try again when that has ended",
                exit_code=75,
            )
        check_restored(self._state_dir)

    @contextmanager
    def alone(self) -> Generator[None]:
        """Use it alone, then together with others; UserError if others stay."""
        if self._has_daemon() or not self._lock(fcntl.LOCK_EX):
            what = "a daemon is running on" if self._has_daemon() else "another Buddy process uses"
            raise UserError(
                f"{what} {self._state_dir}, so it cannot be changed now",
                hint="buddy daemon stop; or wait until the process has ended",
                exit_code=75,
            )
        try:
            yield
        finally:
            fcntl.flock(self._opened, fcntl.LOCK_SH)

    def end(self) -> None:
        if self._opened >= 0:
            os.close(self._opened)
            self._opened = -1

    def _lock(self, how: int) -> bool:
        deadline = time.monotonic() + self._wait
        while True:
            try:
                fcntl.flock(self._opened, how | fcntl.LOCK_NB)
            except BlockingIOError:
                # Others may be waiting to be alone, too, so nothing is held meanwhile.
                fcntl.flock(self._opened, fcntl.LOCK_UN)
                if time.monotonic() >= deadline:
                    return False
                time.sleep(_POLL_SECONDS)
            else:
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
