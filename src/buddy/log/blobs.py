"""Blobs as files: content-addressed, in two levels of directories.

Invariants: a file under its final name is complete and on the disk; a name is only ever the SHA-256 of its content,
so nothing a client sends becomes a path. What compression makes shorter is stored compressed, with the suffix `.z`.
"""

import asyncio
import contextlib
import hashlib
import logging
import os
import re
import time
import zlib
from pathlib import Path

from buddy.errors import StorageFull
from buddy.log.room import is_full
from buddy.log.statedir import make_private_dir

_log = logging.getLogger("buddy.log")
_ID = re.compile(r"[0-9a-f]{64}")
# A blob is stored before the event that names it, so a recent one may be about to be named.
_GRACE_SECONDS = 60.0
KEPT_SECONDS = 24 * 3600.0
"""How long a blob that was brought for a session waits for a message that names it."""
_FAST = 1


class FileBlobs:
    def __init__(self, root: Path) -> None:
        self._root = root

    async def put(self, content: bytes) -> str:
        return await asyncio.to_thread(self._put, content)

    async def read(self, blob: str, offset: int, limit: int | None) -> tuple[bytes, int] | None:
        if not _ID.fullmatch(blob):
            return None
        return await asyncio.to_thread(_read_part, self._paths(blob), max(offset, 0), limit)

    def discard(self, blob: str) -> bool:
        """Remove a blob that no event names; False if it is too recent to be sure."""
        if any(age < _GRACE_SECONDS for age in self._ages(blob)):
            return False
        self.remove(blob)
        return True

    def remove(self, blob: str) -> None:
        """Remove a blob, however recent, while nobody can be about to name it."""
        for path in self._paths(blob):
            path.unlink(missing_ok=True)

    def is_old(self, blob: str) -> bool:
        """Whether it has been here for a day; one that is about to be stored has not."""
        ages = self._ages(blob)
        return bool(ages) and min(ages) >= KEPT_SECONDS

    def has(self, blob: str) -> bool:
        return any(path.exists() for path in self._paths(blob))

    def touch(self, blob: str) -> None:
        """Make it as recent as one that is stored now."""
        for path in self._paths(blob):
            with contextlib.suppress(FileNotFoundError):
                os.utime(path)

    def sweep(self) -> None:
        """Remove what a process that was killed did not finish."""
        for path in self._root.glob(".new-*"):
            with contextlib.suppress(FileNotFoundError):
                if time.time() - path.stat().st_mtime > KEPT_SECONDS:
                    path.unlink()

    def _ages(self, blob: str) -> list[float]:
        """In seconds; none if it is not here."""
        found: list[float] = []
        for path in self._paths(blob):
            with contextlib.suppress(FileNotFoundError):
                found.append(time.time() - path.stat().st_mtime)
        return found

    def _paths(self, blob: str) -> tuple[Path, Path]:
        """The uncompressed and the compressed path; the blob is at one of them."""
        folder = self._root / blob[:2] / blob[2:4]
        return folder / blob, folder / f"{blob}.z"

    def _put(self, content: bytes) -> str:
        blob = hashlib.sha256(content).hexdigest()
        plain, compressed = self._paths(blob)
        for path in (compressed, plain):
            with contextlib.suppress(FileNotFoundError):
                os.utime(path)
                return blob
        short = zlib.compress(content, _FAST)
        self._write(*((compressed, short) if len(short) < len(content) else (plain, content)))
        return blob

    def _write(self, path: Path, content: bytes) -> None:
        temporary = self._root / f".new-{os.urandom(8).hex()}"
        try:
            _write_synced(temporary, content)
            make_private_dir(path.parent.parent)
            make_private_dir(path.parent)
            temporary.rename(path)
            for directory in (path.parent, path.parent.parent, self._root):
                _sync_dir(directory)
        except OSError as error:
            with contextlib.suppress(OSError):
                temporary.unlink()
            if is_full(error):
                raise StorageFull(f"no room for a blob of {len(content)} bytes: {error.strerror}") from error
            raise


def _write_synced(path: Path, content: bytes) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync_dir(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _read_part(paths: tuple[Path, Path], offset: int, limit: int | None) -> tuple[bytes, int] | None:
    plain, compressed = paths
    with contextlib.suppress(FileNotFoundError):
        try:
            content = zlib.decompress(compressed.read_bytes())
        except zlib.error as error:
            _log.warning("%s is damaged (%s): its content is treated as missing", compressed, error)
            return None
        return content[offset:][: None if limit is None else max(limit, 0)], len(content)
    with contextlib.suppress(FileNotFoundError), plain.open("rb") as file:
        total = os.fstat(file.fileno()).st_size
        file.seek(min(offset, total))
        return file.read(-1 if limit is None else max(limit, 0)), total
    return None
