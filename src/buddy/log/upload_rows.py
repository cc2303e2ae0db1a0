"""The rows of blobs: which session names one, for which one was brought, and which belong to nobody.

Invariants: a blob that was brought for a session is kept for a day, and for as long as a message that waits there names
it; one that events name is kept as long as the last of them, and then only if a message waits for it. In `blob_refs`,
a session is its key, a session for which a blob was brought is its key with a minus, and 0 is nobody.
"""

from collections.abc import Callable, Collection, Iterable

from buddy.log.contract import INCOMPLETE
from buddy.log.database import Database

NOBODY = 0

_HOLD = "INSERT OR IGNORE INTO blob_refs (blob, session) SELECT ?, -key FROM sessions WHERE id = ? AND state <> ?"
_NAME = "INSERT INTO blob_refs VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET seq = max(seq, excluded.seq)"
_DISOWN = "INSERT OR IGNORE INTO blob_refs (blob, session) VALUES (?, ?)"
_HAS = "SELECT 1 FROM blob_refs b JOIN sessions s ON b.session IN (s.key, -s.key) WHERE b.blob = ? AND s.id = ?"
_UNNAMED = """
SELECT blob FROM blob_refs r WHERE session = 0
AND NOT EXISTS (SELECT 1 FROM blob_refs x WHERE x.blob = r.blob AND x.session <> 0)
"""
_WAITS = "SELECT 1 FROM inbox WHERE session = ? AND taken = 0 AND instr(body, CAST(? AS BLOB)) LIMIT 1"


def hold_blob(session_id: str, blob: str, db: Database) -> bool:
    """It was brought for this session; False if there is no such session."""
    db.execute(_HOLD, (blob, session_id, INCOMPLETE))
    return has_blob(session_id, blob, db)


def has_blob(session_id: str, blob: str, db: Database) -> bool:
    return db.execute(_HAS, (blob, session_id)).get is not None


def name_blobs(key: int, seq: int, blobs: Collection[str], db: Database) -> None:
    """An event of the session names them."""
    db.executemany(_NAME, [(blob, key, seq) for blob in blobs])


def disown_pruned_blobs(key: int, first_seq: int, db: Database) -> None:
    """The events before this one are gone, and with them the session's blobs that no later one names."""
    gone = list(db.execute("DELETE FROM blob_refs WHERE session = ? AND seq < ? RETURNING blob", (key, first_seq)))
    _disown(gone, db)
    for (blob,) in gone:
        if db.execute(_WAITS, (key, blob)).get is None:
            db.execute("DELETE FROM blob_refs WHERE blob = ? AND session = ?", (blob, -key))


def disown_blobs(key: int, db: Database) -> None:
    """A session is deleted."""
    _disown(db.execute("DELETE FROM blob_refs WHERE session IN (?1, -?1) RETURNING blob", (key,)), db)


def _disown(gone: Iterable[tuple[str]], db: Database) -> None:
    """Others may name these blobs: they are nobody's until it is known that none does."""
    db.executemany(_DISOWN, [(blob, NOBODY) for (blob,) in list(gone)])


def expire_uploads(is_old: Callable[[str], bool], db: Database) -> None:
    """Let go of what was brought long ago, unless a message that names it still waits."""
    for blob, session in list(db.execute("SELECT blob, session FROM blob_refs WHERE session < 0")):
        if is_old(blob) and db.execute(_WAITS, (-session, blob)).get is None:
            db.execute("DELETE FROM blob_refs WHERE blob = ? AND session = ?", (blob, session))
            db.execute(_DISOWN, (blob, NOBODY))


def unnamed_blobs(db: Database) -> list[str]:
    """The blobs that belong to nobody."""
    return [blob for (blob,) in db.execute(_UNNAMED)]


def forget_blobs(blobs: list[str], db: Database) -> None:
    db.executemany("DELETE FROM blob_refs WHERE blob = ? AND session = ?", [(blob, NOBODY) for blob in blobs])
