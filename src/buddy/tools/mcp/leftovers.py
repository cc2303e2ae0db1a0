"""Servers that outlived a process that was killed: found by their marks, and ended.

Invariants: a mark is written before its server starts and removed after it has ended; only servers of processes that
are gone are ended.
"""

from pathlib import Path

from buddy.log.owners import is_alive
from buddy.shared_files import replace_content
from buddy.targets import orphans


class Marks:
    """One small file per running server, named after its nonce, with the process that started it."""

    def __init__(self, folder: Path, owner: str) -> None:
        self._folder = folder
        self._owner = owner

    def add(self, nonce: str) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_content(self._folder / nonce, self._owner.encode())

    def remove(self, nonce: str) -> None:
        (self._folder / nonce).unlink(missing_ok=True)

    def end_leftovers(self) -> int:
        """End the servers of processes that are gone; returns how many processes were left."""
        ended = 0
        for mark in self._folder.iterdir() if self._folder.is_dir() else ():
            try:
                owner = mark.read_text(encoding="utf-8", errors="replace")
            except OSError:
                continue  # another process has just removed it
            if not is_alive(owner, None, 0):
                ended += orphans.kill(mark.name)
                mark.unlink(missing_ok=True)
        return ended
