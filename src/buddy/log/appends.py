"""One batch into the tables: first every check, then every write.

What always holds: a batch that is refused has written nothing; the checks come in the order key, epoch, seq, claim,
approval and decision. All of it runs inside the writer's transaction, at whose end the events of all its batches are
written together.
"""

from buddy.errors import Fenced, NotClaimed, SeqConflict, Undecidable
from buddy.log.batches import blobs_named
from buddy.log.contract import Batch
from buddy.log.database import Database, Value
from buddy.protocol.envelopes import Event

_ADVANCE = """
UPDATE sessions SET last_seq = ?, updated_at = ?, state = coalesce(?, state), title = coalesce(?, title)
WHERE key = ? AND epoch = ? AND last_seq = ?
"""
# A payload is bound as the bytes it is; the cast only says that they are text.
_ROW = "(?, ?, ?, ?, ?, CAST(? AS TEXT))"
_COLUMNS = 6
# Many rows per statement: most of what a row costs by itself is the statement around it.
_INSERTS = tuple(
    (size, "INSERT INTO events VALUES " + ", ".join([_ROW] * size))  # noqa: S608 - constants only
    for size in (32, 8, 1)
)
_KNOWN_KEYS = 10_000


class Appends:
    """Remembers the integer keys of sessions; they never change, and a wrong one is caught by the update."""

    def __init__(self) -> None:
        self._keys: dict[str, int] = {}
        self._events: list[tuple[int, Event]] = []

    def append(self, batch: Batch, now: int, db: Database) -> int:
        if batch.key is not None:
            before = db.execute(_SEEN, (batch.session_id, batch.key)).get
            if before is not None:
                return before
        if batch.claim or batch.decision or batch.approval:
            _check_head(db, batch)
            _check_rows(db, batch)
        key = self._key_of(db, batch.session_id)
        last_seq = batch.expected_seq + len(batch.events)
        db.execute(_ADVANCE, (last_seq, now, batch.state, batch.title, key, batch.epoch, batch.expected_seq))
        if db.changes() == 0:
            self._keys.pop(batch.session_id, None)
            _check_head(db, batch)
            raise Fenced(f"{batch.session_id} was made anew by another process")
        _write_rows(db, key, batch, last_seq)
        self._events += [(key, event) for event in batch.events]
        return last_seq

    def drop(self) -> None:
        """A transaction begins: what was left of one that failed is void."""
        self._events.clear()

    def write(self, db: Database) -> None:
        """The events of all batches since the last time."""
        if self._events:
            events, self._events = self._events, []
            _insert_events(db, events)

    def _key_of(self, db: Database, session_id: str) -> int:
        key = self._keys.get(session_id)
        if key is None:
            key = db.execute("SELECT key FROM sessions WHERE id = ?", (session_id,)).get
            if key is None:
                raise _deleted(session_id)
            if len(self._keys) >= _KNOWN_KEYS:
                self._keys.clear()
            self._keys[session_id] = key
        return key


_SEEN = "SELECT k.last_seq FROM keys k JOIN sessions s ON s.key = k.session WHERE s.id = ? AND k.key = ?"
_CLAIMED = """
SELECT count(*) FROM claims c JOIN sessions s ON s.key = c.session WHERE s.id = ? AND c.call_id = ? AND c.attempt = ?
"""
_APPROVAL = "SELECT a.state, s.id FROM approvals a JOIN sessions s ON s.key = a.session WHERE a.id = ?"


def _deleted(session_id: str) -> Fenced:
    return Fenced(f"{session_id} is not in the log any more")


def _check_head(db: Database, batch: Batch) -> None:
    head = db.execute("SELECT epoch, last_seq FROM sessions WHERE id = ?", (batch.session_id,)).get
    if head is None:
        raise _deleted(batch.session_id)
    epoch, last_seq = head
    if epoch != batch.epoch:
        raise Fenced(f"{batch.session_id} is at epoch {epoch}, this writer at {batch.epoch}")
    if last_seq != batch.expected_seq:
        raise SeqConflict(f"{batch.session_id} ends at {last_seq}, not at {batch.expected_seq}")


def _check_rows(db: Database, batch: Batch) -> None:
    if (claim := batch.claim) and db.execute(_CLAIMED, (batch.session_id, claim.call_id, claim.attempt)).get:
        raise NotClaimed(f"{claim.call_id} was claimed before, attempt {claim.attempt}")
    asked = batch.approval.approval_id if batch.approval else None
    if asked is not None:
        state = _approval_state(db, asked, None)
        if state != "unknown":
            raise Undecidable(asked, state)
    if batch.decision and batch.decision.approval_id != asked:
        state = _approval_state(db, batch.decision.approval_id, batch.session_id)
        if state != "pending":
            raise Undecidable(batch.decision.approval_id, state)


def _approval_state(db: Database, approval_id: str, session_id: str | None) -> str:
    found = db.execute(_APPROVAL, (approval_id,)).get
    if found is None or session_id not in (None, found[1]):
        return "unknown"
    return found[0]


def _insert_events(db: Database, events: list[tuple[int, Event]]) -> None:
    values: list[Value] = []
    for key, event in events:
        values += (key, event.seq, event.ts, event.run_id, event.type, event.payload)
    start, left = 0, len(events)
    for size, insert in _INSERTS:
        while left >= size:
            end = start + size * _COLUMNS
            db.execute(insert, values if left == len(events) == size else values[start:end])
            start, left = end, left - size
    for key, event in events:
        for blob in blobs_named(event):
            db.execute("INSERT OR IGNORE INTO blob_refs VALUES (?, ?)", (blob, key))


def _write_rows(db: Database, key: int, batch: Batch, last_seq: int) -> None:
    if batch.key is not None:
        db.execute("INSERT INTO keys VALUES (?, ?, ?)", (key, batch.key, last_seq))
    if claim := batch.claim:
        db.execute("INSERT INTO claims VALUES (?, ?, ?, ?)", (key, claim.call_id, claim.attempt, claim.digest))
    if approval := batch.approval:
        db.execute(
            "INSERT INTO approvals (id, session, run_id, call_id, digest, expires_at) VALUES (?, ?, ?, ?, ?, ?)",
            (approval.approval_id, key, approval.run_id, approval.call_id, approval.digest, approval.expires_at),
        )
    if decision := batch.decision:
        db.execute(
            "UPDATE approvals SET state = ?, decided_by = ? WHERE id = ?",
            (decision.state, decision.by, decision.approval_id),
        )
    for item in batch.taken:
        # The key stays, so that what was taken up once is never queued again.
        db.execute("UPDATE inbox SET taken = 1, body = x'' WHERE item = ? AND session = ?", (item, key))
