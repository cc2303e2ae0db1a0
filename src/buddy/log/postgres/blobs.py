"""Blobs in the database, up to a size: larger ones belong in object storage.

Invariants: a blob's id is the SHA-256 of its content; a blob that an event names, or that was stored a moment ago and
may be about to be named, is never removed.
"""

import hashlib
import re
from typing import Protocol

from buddy.errors import StorageFull
from buddy.log.postgres.connections import Channel, Readers

MAX_BLOB = 64 * 1024 * 1024
_ID = re.compile(r"[0-9a-f]{64}")
_PUT_SECONDS = 120.0

_PUT = """
INSERT INTO blobs VALUES ($1, $2, clock_timestamp()) ON CONFLICT (id) DO UPDATE SET stored_at = excluded.stored_at
"""
_READ = "SELECT substring(content FROM $2 FOR $3), octet_length(content) FROM blobs WHERE id = $1"
_SWEEP = """
WITH unnamed AS (
  SELECT r.blob FROM blob_refs r WHERE r.session = 0
  AND NOT EXISTS (SELECT FROM blob_refs x WHERE x.blob = r.blob AND x.session <> 0)
), gone AS (
  DELETE FROM blobs b USING unnamed u WHERE b.id = u.blob AND b.stored_at < clock_timestamp() - interval '60 seconds'
  RETURNING b.id
)
DELETE FROM blob_refs r USING unnamed u WHERE r.blob = u.blob AND r.session = 0
AND (r.blob IN (SELECT id FROM gone) OR NOT EXISTS (SELECT FROM blobs b WHERE b.id = r.blob))
"""

# Whose blobs are whose is said in `log/upload_rows.py`. A blob is touched before it is held, each in a statement of
# its own: one that meets a sweep waits for it, and what the sweep took from the session is held again.
TOUCH = "UPDATE blobs SET stored_at = clock_timestamp() WHERE id = $1"
HOLD = """
WITH held AS (SELECT key FROM sessions WHERE id = $2),
  stored AS (INSERT INTO blob_refs (blob, session) SELECT $1, -key FROM held ON CONFLICT DO NOTHING)
SELECT key FROM held
"""
EXPIRE = """
WITH old AS (
  SELECT b.id FROM blobs b WHERE b.id IN (SELECT blob FROM blob_refs WHERE session < 0)
  AND b.stored_at < clock_timestamp() - interval '1 day' FOR UPDATE
), gone AS (
  DELETE FROM blob_refs r USING old WHERE r.blob = old.id AND r.session < 0 AND NOT EXISTS (
    SELECT FROM inbox i WHERE i.session = -r.session AND NOT i.taken
    AND position(convert_to(r.blob, 'UTF8') IN i.body) > 0
  ) RETURNING r.blob
)
INSERT INTO blob_refs (blob, session) SELECT DISTINCT blob, 0 FROM gone ON CONFLICT DO NOTHING
"""


class ObjectStore(Protocol):
    """Where blobs are: in the database, or elsewhere. An id is the SHA-256 of the content."""

    async def put(self, content: bytes) -> str: ...

    async def read(self, blob: str, offset: int, limit: int | None) -> tuple[bytes, int] | None:
        """A part, and the total size; None for an unknown blob."""
        ...

    async def sweep(self) -> None:
        """Remove what only deleted sessions named."""
        ...


class DatabaseBlobs:
    def __init__(self, writes: Channel, reads: Readers, max_size: int = MAX_BLOB) -> None:
        self._writes = writes
        self._reads = reads
        self._max_size = max_size

    async def put(self, content: bytes) -> str:
        if len(content) > self._max_size:
            size, most = len(content), self._max_size
            raise StorageFull(f"a blob of {size} bytes is too large for the shared log (at most {most})")
        blob = hashlib.sha256(content).hexdigest()
        await self._writes.repeat(_PUT, blob, content, timeout=_PUT_SECONDS)
        return blob

    async def read(self, blob: str, offset: int, limit: int | None) -> tuple[bytes, int] | None:
        if not _ID.fullmatch(blob):
            return None
        length = self._max_size if limit is None else min(max(limit, 0), self._max_size)
        found = await self._reads.fetch(_READ, blob, min(max(offset, 0), 2**30) + 1, length)
        return (bytes(found[0][0]), found[0][1]) if found else None

    async def sweep(self) -> None:
        await self._writes.repeat(_SWEEP)
