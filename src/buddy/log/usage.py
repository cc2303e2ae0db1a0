"""What each session takes of the database and of the blobs, found without a lease and without writing."""

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TypeVar

import apsw
from msgspec import Struct

from buddy.log.blobs import FileBlobs
from buddy.log.contract import INCOMPLETE
from buddy.log.database import Database
from buddy.log.schema import UNKNOWN_SEQ, explain, open_reader

Result = TypeVar("Result")

DATABASE = "buddy.db"
ROW_OVERHEAD = 60
"""Bytes that an event takes beside its payload: its row, and its entry in the index."""

_SESSIONS = f"""
SELECT s.id, coalesce(s.title, ''), s.state, s.updated_at, coalesce(e.events, 0), coalesce(e.size, 0)
FROM sessions s LEFT JOIN (
  SELECT session, count(*) AS events, sum(octet_length(payload) + {ROW_OVERHEAD}) AS size FROM events GROUP BY session
) e ON e.session = s.key WHERE s.state <> '{INCOMPLETE}' ORDER BY s.updated_at
"""  # noqa: S608 - a constant
# Sub-agents are younger than the column, which older schemas do not have.
_HAS_FACTS = "SELECT count(*) FROM pragma_table_info('sessions') WHERE name = 'facts'"
_PARENTS = "SELECT id, facts ->> '$.parent' FROM sessions WHERE facts ->> '$.agent' IS NOT NULL"
_BLOBS = "SELECT s.id, b.blob FROM blob_refs b JOIN sessions s ON s.key = b.session"

_NAMED_BY_EVENTS = f"SELECT DISTINCT blob FROM blob_refs WHERE session > 0 AND seq < {UNKNOWN_SEQ}"  # noqa: S608 - a constant
_NAMED = "SELECT b.blob, s.id FROM blob_refs b LEFT JOIN sessions s ON s.key = b.session"
_UNNAMED = """
SELECT DISTINCT blob FROM blob_refs r WHERE session <= 0
AND NOT EXISTS (SELECT 1 FROM blob_refs x WHERE x.blob = r.blob AND x.session > 0)
"""


class SessionUsage(Struct, frozen=True):
    """Sizes are in bytes; `blobs` has those of the blobs that it names, by digest: forks name the same ones. Only a
    sub-agent has a `parent`."""

    session_id: str
    title: str
    state: str
    updated_at: int
    events: int
    log: int
    blobs: Mapping[str, int] = {}
    parent: str | None = None

    @property
    def size(self) -> int:
        return self.log + sum(self.blobs.values())

    @property
    def is_active(self) -> bool:
        return self.state in ("running", "awaiting_approval")


def read_sessions(state_dir: Path) -> list[SessionUsage]:
    """Every session, the one that was not used for longest first; none if there is no database."""
    path = state_dir / DATABASE
    if not path.exists():
        return []
    try:
        reader = open_reader(path)
        try:
            rows = list(reader.execute(_SESSIONS))
            named = list(reader.execute(_BLOBS))
            parents = dict(reader.execute(_PARENTS)) if reader.execute(_HAS_FACTS).get else {}
        finally:
            reader.close()
    except apsw.Error as error:
        raise explain(error, path) from error
    sizes = {blob: _blob_size(state_dir / "blobs", blob) for blob in {blob for _, blob in named}}
    blobs: dict[str, dict[str, int]] = {}
    for session_id, blob in named:
        blobs.setdefault(session_id, {})[blob] = sizes[blob]
    return [
        SessionUsage(session_id, *columns, blobs=blobs.get(session_id, {}), parent=parents.get(session_id))
        for session_id, *columns in rows
    ]


def remove_blobs_of(state_dir: Path, sessions: Collection[str]) -> None:
    """Remove the blobs that only these sessions name. They must be about to be deleted, and nobody may use the log."""
    named = _read(state_dir, lambda reader: list(reader.execute(_NAMED)), [])
    others = {blob for blob, session_id in named if session_id not in sessions}
    files = FileBlobs(state_dir / "blobs")
    for blob in {blob for blob, _ in named} - others:
        files.remove(blob)


def missing_blobs(state_dir: Path) -> int:
    """How many blobs that events name are not there. Earlier schemas do not know which of their rows are blobs."""
    try:
        named = _read(state_dir, lambda reader: [blob for (blob,) in reader.execute(_NAMED_BY_EVENTS)], [])
    except apsw.SQLError:
        return 0
    files = FileBlobs(state_dir / "blobs")
    return sum(not files.has(blob) for blob in named)


def free_bytes(state_dir: Path) -> int:
    """What the file of the database has room for without growing: pages that deleted sessions have left."""
    return _read(state_dir, lambda reader: reader.pragma("freelist_count") * reader.pragma("page_size"), 0)


def upload_bytes(state_dir: Path) -> int:
    """What the blobs take that no event names: images that were brought for a message, and have none yet."""
    blobs = state_dir / "blobs"
    return _read(state_dir, lambda reader: sum(_blob_size(blobs, blob) for (blob,) in reader.execute(_UNNAMED)), 0)


def _read(state_dir: Path, work: Callable[[Database], Result], otherwise: Result) -> Result:
    """What is read; something else if there is no database."""
    path = state_dir / DATABASE
    if not path.exists():
        return otherwise
    try:
        reader = open_reader(path)
        try:
            return work(reader)
        finally:
            reader.close()
    except apsw.Error as error:
        raise explain(error, path) from error


def _blob_size(root: Path, blob: str) -> int:
    folder = root / blob[:2] / blob[2:4]
    for path in (folder / f"{blob}.z", folder / blob):
        try:
            return path.stat().st_size
        except OSError:
            continue
    return 0
