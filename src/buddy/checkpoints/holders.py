"""Which processes use the checkpoint store now: each holds a lock on a file of its own for as long as it lives.

Invariants: the lock ends with the process, however that ends; a file gets its name after it is locked, so one that
can be locked belongs to a process that is gone.
"""

import fcntl
import os
from contextlib import suppress
from pathlib import Path

FOLDER = "holders"


class Holder:
    """This process as a user of the store."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / FOLDER
        self._folder.mkdir(mode=0o700, exist_ok=True)
        self.name = os.urandom(8).hex()
        path = self._folder / self.name
        temporary = path.with_suffix(".tmp")
        self._opened = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        temporary.rename(path)

    def close(self) -> None:
        with suppress(OSError):
            (self._folder / self.name).unlink(missing_ok=True)
        os.close(self._opened)

    def is_alive(self, name: str) -> bool:
        """Whether the process that gave itself this name still runs."""
        if name == self.name:
            return True
        if not name:
            return False  # an older program did not say
        try:
            opened = os.open(self._folder / name, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(opened)
        return False

    def remove_dead(self) -> None:
        """Files of processes that were killed."""
        for path in self._folder.iterdir():
            if not path.suffix and not self.is_alive(path.name):
                path.unlink(missing_ok=True)
