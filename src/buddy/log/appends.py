"""One batch into the tables: first every check, then every write.

Invariants: a refused batch has written nothing; the checks come in the order key, epoch, seq, claim,
approval and decision. All of it runs inside the writer's transaction, at whose end the epochs and seqs of all
its batches are checked and their events written together.
"""

from collections.abc import Callable, Sequence
from itertools import chain
from typing import NoReturn

from buddy.errors import Fenced, LogError, NotClaimed, SeqConflict, Undecidable
from buddy.log.batches import blobs_named, names_blob
from buddy.log.contract import Batch
from buddy.log.database import Cursor, Database, Value
from buddy.log.rows import HOUR_MS, set_facts
from buddy.log.upload_rows import name_blobs
from buddy.log.writer import DeferredRefusal

# Many rows per statement: most of a single row's cost is the statement around it.
_SIZES = (32, 8, 4, 2)
_ADVANCE = """
UPDATE sessions SET last_seq = ?, updated_at = coalesce(?, updated_at), state = coalesce(?, state),
  title = coalesce(?, title)
WHERE key = ? AND epoch = ? AND last_seq = ?
"""
_ADVANCE_MANY = """
UPDATE sessions SET last_seq = column1, updated_at = coalesce(column2, updated_at), state = coalesce(column3, state),
  title = coalesce(column4, title)
FROM (VALUES %s) WHERE key = column5 AND epoch = column6 AND last_seq = column7
"""
_HEAD = "(?, ?, ?, ?, ?, ?, ?)"
_ADVANCES = (*((size, _ADVANCE_MANY % ", ".join([_HEAD] * size)) for size in _SIZES), (1, _ADVANCE))
# A payload is bound as bytes, without decoding it; the cast stores it as text.
_ROW = "(?, ?, ?, ?, ?, CAST(? AS TEXT))"
_INSERTS = tuple(
    (size, "INSERT INTO events VALUES " + ", ".join([_ROW] * size))  # noqa: S608 - constants only
    for size in (*_SIZES, 1)
)
_KNOWN_KEYS = 10_000


class Appends:
    """Remembers the integer keys of sessions; they never change, and a wrong one is caught by the update."""

    def __init__(self, wake: Callable[[str], None]) -> None:
        self._wake = wake
        self._keys: dict[str, int] = {}
        self._batches: list[tuple[Batch, int, int]] = []  # with the session's key and the time
        self._grown: list[str] = []
        self._hours: dict[int, int] = {}  # in which each session was used last, as its row says
        self._new_hours: dict[int, int] = {}

    def append(self, batch: Batch, now: int, db: Database) -> int:
        if batch.key is not None:
            before = db.execute(_SEEN, (batch.session_id, batch.key)).get
            if before is not None:
                return before
        if batch.claim or batch.decision or batch.approval:
            self.write(db)
            _check_head(db, batch)
            _check_rows(db, batch)
        key = self._key_of(db, batch.session_id)
        last_seq = batch.expected_seq + len(batch.events)
        _write_rows(db, key, batch, last_seq)
        self._batches.append((batch, key, now))
        self._grown.append(batch.session_id)
        return last_seq

    def drop(self) -> None:
        """A transaction begins: discard what a failed one left."""
        self._batches.clear()
        self._new_hours.clear()

    def write(self, db: Database) -> None:
        """Write the events of all batches since the last call, and the new heads of their sessions."""
        if not self._batches:
            return
        batches, self._batches = self._batches, []
        heads: list[tuple[Value, ...]] = []
        rows: list[tuple[Value, ...]] = []
        for batch, key, now in batches:
            seq = batch.expected_seq
            used = now if batch.is_use else None
            if used is not None and self._hours.get(key) != used // HOUR_MS:
                self._new_hours[key] = used // HOUR_MS
            heads.append((seq + len(batch.events), used, batch.state, batch.title, key, batch.epoch, seq))
            for event in batch.events:
                row = (key, event.seq, event.ts, event.run_id, event.type, event.payload)
                rows.append(row)
        cursor = db.cursor()
        before = db.total_changes()
        _execute(cursor, _ADVANCES, heads)
        if db.total_changes() - before < len(batches):
            self._give_up(db, batches)
        _execute(cursor, _INSERTS, rows)
        for key, hour in self._new_hours.items():
            cursor.execute("UPDATE sessions SET used_hour = ? WHERE key = ?", (hour, key))
        _name_blobs(db, batches)

    def notify(self) -> None:
        """Wake those who wait for one of the sessions that grew."""
        grown, self._grown = self._grown, []
        if self._new_hours:
            self._remember_hours()
        for session_id in grown:
            self._wake(session_id)

    def _remember_hours(self) -> None:
        """The hours were committed: the rows need no others until they change."""
        if len(self._hours) >= _KNOWN_KEYS:
            self._hours.clear()
        self._hours.update(self._new_hours)
        self._new_hours.clear()

    def _give_up(self, db: Database, batches: list[tuple[Batch, int, int]]) -> NoReturn:
        """One batch lost its lease or has the wrong seq; retrying each alone shows which."""
        for batch, _, _ in batches:
            self._keys.pop(batch.session_id, None)
        batch = batches[0][0]
        try:
            _check_head(db, batch)
        except LogError as refusal:
            raise DeferredRefusal(refusal) from None
        raise DeferredRefusal(Fenced(f"{batch.session_id} was recreated by another process"))

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
    return Fenced(f"{session_id} is no longer in the log")


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


def _name_blobs(db: Database, batches: list[tuple[Batch, int, int]]) -> None:
    if names_blob([event for batch, _, _ in batches for event in batch.events]):
        for batch, key, _ in batches:
            for event in batch.events:
                name_blobs(key, event.seq, blobs_named(event), db)


def _execute(cursor: Cursor, statements: Sequence[tuple[int, str]], rows: Sequence[tuple[Value, ...]]) -> None:
    """Each statement comes with its number of rows, the largest first."""
    at = 0
    for size, statement in statements:
        while len(rows) - at >= size:
            cursor.execute(statement, rows[at] if size == 1 else [*chain.from_iterable(rows[at : at + size])])
            at += size


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
    if batch.facts:
        set_facts(key, batch.facts, db)
    for item in batch.taken:
        db.execute("UPDATE inbox SET taken = 1, body = x'' WHERE item = ? AND session = ?", (item, key))
