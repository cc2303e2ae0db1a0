"""Contents of files by their SHA-256: small ones in the database, others as files beside it.

Invariants: a content is stored once for all sessions and workspaces; a file that has its final name is complete;
nothing is stored beyond the total limit, which all processes share, or when the disk is nearly full.
"""

import hashlib
import os
import sqlite3
from collections.abc import Iterable
from pathlib import Path

from buddy.checkpoints.limits import CheckpointLimits

INLINE = 64 * 1024
NEARLY = 0.95


class Contents:
    def __init__(self, db: sqlite3.Connection, folder: Path, limits: CheckpointLimits) -> None:
        self._db = db
        self._folder = folder
        self._limits = limits
        self._is_roomy = True
        self._unchecked = 0
        self.total = self._saved = 0
        self._removed: list[bytes] = []
        self.pinned = 0
        """The size of packs that only we still have: they count, too."""
        self.load_total()

    def load_total(self) -> None:
        """How much is stored, by all processes; what was not committed is forgotten."""
        [self.total] = self._db.execute("SELECT value FROM counters WHERE name = 'total'").fetchone()
        self._saved = self.total
        self._removed.clear()

    def save_total(self) -> None:
        if self.total != self._saved:
            self._db.execute("UPDATE counters SET value = ? WHERE name = 'total'", (self.total,))
            self._saved = self.total

    @property
    def used(self) -> int:
        return self.total + self.pinned

    @property
    def is_nearly_full(self) -> bool:
        return self.used > self._limits.max_total * NEARLY

    def put(self, data: bytes) -> bytes:
        """Store a content and return its id; empty if there is no room for it."""
        key = hashlib.sha256(data).digest()
        row = self._db.execute("SELECT data IS NULL FROM contents WHERE id = ?", (key,)).fetchone()
        if row is not None:
            if row[0] and not self._path(key).exists():
                self._write(key, data)  # somebody removed it
            return key
        if self.used + len(data) > self._limits.max_total or not self._has_disk(len(data)):
            return b""
        inline = len(data) <= INLINE
        if not inline:
            self._write(key, data)
        self._db.execute("INSERT INTO contents VALUES (?, ?, ?)", (key, len(data), data if inline else None))
        self.total += len(data)
        return key

    def has(self, key: bytes) -> bool:
        return self._db.execute("SELECT 1 FROM contents WHERE id = ?", (key,)).fetchone() is not None

    def get(self, key: bytes) -> bytes | None:
        """A content; None if it is not stored, or damaged."""
        row = self._db.execute("SELECT data FROM contents WHERE id = ?", (key,)).fetchone()
        if row is None:
            return None
        data: bytes | None = row[0]
        if data is None:
            try:
                data = self._path(key).read_bytes()
            except OSError:
                return None
        return data if hashlib.sha256(data).digest() == key else None

    def remove(self, keys: Iterable[bytes]) -> None:
        for key in keys:
            row = self._db.execute("SELECT size, data IS NULL FROM contents WHERE id = ?", (key,)).fetchone()
            if row is not None:
                self._db.execute("DELETE FROM contents WHERE id = ?", (key,))
                self.total -= row[0]
                if row[1]:
                    self._removed.append(key)

    def sweep(self) -> None:
        """Delete the files of contents whose removal is committed: earlier, a crash would leave rows without files."""
        removed, self._removed = self._removed, []
        if removed:
            self._db.execute("BEGIN IMMEDIATE")  # nobody may store one of them again meanwhile
            try:
                for key in removed:
                    if not self.has(key):
                        self._path(key).unlink(missing_ok=True)
            finally:
                self._db.execute("COMMIT")

    def _has_disk(self, size: int) -> bool:
        """Whether the disk has room; asked once per few megabytes."""
        self._unchecked += size
        if self._unchecked >= INLINE or not self._is_roomy:
            self._unchecked = 0
            found = os.statvfs(self._folder)
            self._is_roomy = found.f_bavail * found.f_frsize >= self._limits.min_free
        return self._is_roomy

    def _write(self, key: bytes, data: bytes) -> None:
        path = self._path(key)
        path.parent.parent.mkdir(mode=0o700, exist_ok=True)
        path.parent.mkdir(mode=0o700, exist_ok=True)
        temporary = path.with_name(f"{path.name}.{os.urandom(4).hex()}.tmp")
        opened = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with open(opened, "wb") as file:  # noqa: PTH123 - a descriptor
                file.write(data)
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise

    def _path(self, key: bytes) -> Path:
        name = key.hex()
        return self._folder / "objects" / name[:2] / name[2:]
