"""The rows other than events: sessions, leases, inbox, tokens. Writes run inside the writer's transaction.

Invariants: an epoch only rises; an inbox key is not queued again once a batch had it; deleting a session deletes all
its rows.
"""

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Raw

from buddy.errors import Fenced, LogError, UserError
from buddy.log.contract import (
    INCOMPLETE,
    ApprovalRecord,
    InboxItem,
    Lease,
    RowFacts,
    SessionRecord,
    TokenRecord,
    UserUsage,
)
from buddy.log.database import Database
from buddy.log.owners import is_alive
from buddy.log.upload_rows import disown_blobs, disown_pruned_blobs
from buddy.protocol.codes import Role
from buddy.protocol.envelopes import Event
from buddy.protocol.shapes import BootTime, Repo

_OWNER_KEPT_MS = 24 * 3600 * 1000
PART = 2000
"""The number of events that one transaction deletes: others can write in between."""
_BY_SESSION = ("keys", "claims", "approvals", "inbox", "tokens")
HOUR_MS = 3600 * 1000

RECORD = """
SELECT id, repo, mode, state, created_at, updated_at, first_seq, last_seq, title, archived, facts, user FROM sessions
"""


def records_of(rows: Iterable[Any]) -> list[SessionRecord]:
    return [
        SessionRecord(session_id, _repos.decode(repo), *columns, facts=_facts_of(archived, facts), user=user)
        for session_id, repo, *columns, archived, facts, user in rows
    ]


def _facts_of(archived: int, facts: str | None) -> RowFacts:
    found = _facts.decode(facts) if facts else RowFacts()
    return msgspec.structs.replace(found, archived=True) if archived else found


def set_facts(key: int, facts: RowFacts, db: Database) -> None:
    db.execute("UPDATE sessions SET archived = ?, facts = ? WHERE key = ?", (facts.archived, _encode(facts), key))


def _encode(facts: RowFacts) -> str:
    return msgspec.json.encode(facts).decode()


def no_session(session_id: str) -> UserError:
    return UserError(f"no session {session_id}", hint="run 'buddy session list --all' to see all sessions")


def create(record: SessionRecord, state: str, owner: str, now: int, db: Database) -> Lease:
    if db.execute("SELECT count(*) FROM sessions WHERE id = ?", (record.session_id,)).get:
        raise LogError(f"{record.session_id} exists already")
    repo = msgspec.json.encode(record.repo).decode()
    db.execute(
        "INSERT INTO sessions (id, repo, root_path, mode, state, title, archived, facts, created_at, updated_at,"
        " first_seq, last_seq, epoch, owner, user, used_hour) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1, ?, ?, ?)",
        (
            *(record.session_id, repo, record.repo.root_path, record.mode, state, record.title),
            *(record.facts.archived, _encode(record.facts), record.created_at, record.updated_at),
            *(record.first_seq, record.first_seq - 1, owner, record.user, record.updated_at // HOUR_MS),
        ),
    )
    renew(owner, now, db)
    return Lease(record.session_id, 1, owner)


def acquire(session_id: str, owner: str, now: int, db: Database) -> Lease | None:
    found = db.execute(
        "SELECT s.key, s.epoch, s.owner, o.seen FROM sessions s LEFT JOIN owners o ON o.owner = s.owner WHERE s.id = ?",
        (session_id,),
    ).get
    if found is None:
        raise no_session(session_id)
    key, epoch, holder, seen = found
    if holder not in (None, owner) and is_alive(holder, seen, now):
        return None
    db.execute("UPDATE sessions SET epoch = ?, owner = ? WHERE key = ?", (epoch + 1, owner, key))
    renew(owner, now, db)
    return Lease(session_id, epoch + 1, owner)


def release(lease: Lease, db: Database) -> None:
    db.execute("UPDATE sessions SET owner = NULL WHERE id = ? AND epoch = ?", (lease.session_id, lease.epoch))


def renew(owner: str, now: int, db: Database) -> None:
    db.execute("INSERT INTO owners VALUES (?, ?) ON CONFLICT DO UPDATE SET seen = excluded.seen", (owner, now))
    db.execute("DELETE FROM owners WHERE seen < ?", (now - _OWNER_KEPT_MS,))


def prune(lease: Lease, before_seq: int, db: Database) -> tuple[int, bool]:
    """Delete at most `PART` events; returns the first remaining seq, and whether all are deleted."""
    found = db.execute("SELECT key, epoch, first_seq, last_seq FROM sessions WHERE id = ?", (lease.session_id,)).get
    if found is None or found[1] != lease.epoch:
        raise Fenced(f"{lease.session_id} is not held under epoch {lease.epoch} any more")
    key, _, first_seq, last_seq = found
    end = max(first_seq, min(before_seq, last_seq + 1))
    is_done = end <= first_seq + PART
    first_seq = _delete_part(key, min(end, first_seq + PART), db)
    if is_done:
        _delete_rows_of_runs(key, first_seq, db)
        disown_pruned_blobs(key, first_seq, db)
    return first_seq, is_done


def _delete_rows_of_runs(key: int, first_seq: int, db: Database) -> None:
    """What belongs to runs before the first that is left: run ids sort by time."""
    left = "SELECT run_id FROM events WHERE session = ? AND seq >= ? AND run_id IS NOT NULL ORDER BY seq LIMIT 1"
    run_id = db.execute(left, (key, first_seq)).get
    db.execute("DELETE FROM claims WHERE session = ?1 AND (?2 IS NULL OR call_id < ?2)", (key, run_id))
    decided = "DELETE FROM approvals WHERE session = ?1 AND state <> 'pending' AND (?2 IS NULL OR run_id < ?2)"
    db.execute(decided, (key, run_id))


def _delete_part(key: int, first_seq: int, db: Database) -> int:
    db.execute("DELETE FROM events WHERE session = ? AND seq < ?", (key, first_seq))
    db.execute("UPDATE sessions SET first_seq = ? WHERE key = ?", (first_seq, key))
    return first_seq


def begin_delete(session_id: str, epoch: int | None, db: Database) -> tuple[int, bool] | None:
    """Delete what belongs to a session, and the first part of its events; None if there is no such session.

    Returns its key, and whether all of it is deleted.
    """
    found = db.execute("SELECT key, epoch FROM sessions WHERE id = ?", (session_id,)).get
    if found is None:
        return None
    key, current = found
    if epoch not in (None, current):
        raise Fenced(f"{session_id} is not held under epoch {epoch} any more")
    disown_blobs(key, db)
    db.execute(_KEEP_COST, (key,))
    for table in _BY_SESSION:
        db.execute(f"DELETE FROM {table} WHERE session = ?", (key,))  # noqa: S608 - names from the tuple above
    gone = "UPDATE sessions SET state = ?, facts = NULL, epoch = epoch + 1 WHERE key = ?"
    db.execute(gone, (INCOMPLETE, key))
    return key, delete_part(key, db)


def delete_part(key: int, db: Database) -> bool:
    """Delete at most `PART` events of a session; with the last ones its row, and True is returned."""
    first_seq, last_seq = db.execute("SELECT first_seq, last_seq FROM sessions WHERE key = ?", (key,)).get
    if last_seq - first_seq >= PART:
        _delete_part(key, first_seq + PART, db)
        return False
    db.execute("DELETE FROM events WHERE session = ?", (key,))
    db.execute("DELETE FROM sessions WHERE key = ?", (key,))
    return True


_KEEP_COST = """
INSERT INTO spent SELECT coalesce(user, ''), facts ->> '$.day', facts ->> '$.day_cost_usd' FROM sessions
WHERE key = ? AND facts ->> '$.day_cost_usd' > 0
ON CONFLICT DO UPDATE SET cost_usd = cost_usd + excluded.cost_usd
"""
_USAGE = """
SELECT count(*), coalesce(sum(state IN ('running', 'awaiting_approval')), 0),
  coalesce(sum(CASE WHEN facts ->> '$.day' = ?2 THEN facts ->> '$.day_cost_usd' END), 0.0)
  + coalesce((SELECT cost_usd FROM spent WHERE user = ?1 AND day = ?2), 0.0)
FROM sessions WHERE user = ?1
"""
# A session that cost something on a day was used on it or later, which an index knows.
COST = """
SELECT coalesce((
  SELECT sum(facts ->> '$.day_cost_usd') FROM sessions INDEXED BY sessions_by_use
  WHERE used_hour >= ?1 * 24 AND facts ->> '$.day' = ?1
), 0.0) + coalesce((SELECT sum(cost_usd) FROM spent WHERE day = ?1), 0.0)
"""


def usage_of(user: str, day: int, db: Database) -> UserUsage:
    return UserUsage(*db.execute(_USAGE, (user, day)).get)


def cost_of(day: int, db: Database) -> float:
    return db.execute(COST, (day,)).get


def put_item(session_id: str, item: InboxItem, limit: int, db: Database) -> int | None:
    """Queue an item. The table assigns its id; `item.item_id` is ignored."""
    session = _key_of(db, session_id)
    queued = db.execute("SELECT item, taken FROM inbox WHERE session = ? AND key = ?", (session, item.key)).get
    if queued is not None and not queued[1]:
        return _position(db, session, queued[0])
    if db.execute("SELECT count(*) FROM keys WHERE session = ? AND key = ?", (session, item.key)).get:
        return 0
    waiting = db.execute("SELECT count(*) FROM inbox WHERE session = ? AND taken = 0", (session,)).get
    if waiting >= limit:
        return None
    db.execute("DELETE FROM inbox WHERE session = ? AND key = ?", (session, item.key))  # it was taken back
    db.execute(
        "INSERT INTO inbox (session, key, kind, body) VALUES (?, ?, ?, ?)", (session, item.key, item.kind, item.body)
    )
    return waiting + 1


def put_token(token: TokenRecord, db: Database) -> bool:
    session = _key_of(db, token.session_id)
    boot, parent = token.expires_at_boot, token.minted_by
    if parent is not None and not db.execute("SELECT count(*) FROM tokens WHERE hash = ?", (parent,)).get:
        return False
    deadline = (token.expires_at, boot and boot.boot, boot and boot.ms)
    values = (token.token_hash, session, token.role, *deadline, parent, token.kind)
    db.execute("INSERT OR REPLACE INTO tokens VALUES (?, ?, ?, ?, ?, ?, ?, ?)", values)
    return True


def use_link(token_hash: str, db: Database) -> bool:
    used = "UPDATE tokens SET kind = 'used_link' WHERE hash = ? AND kind = 'link' RETURNING hash"
    return bool(list(db.execute(used, (token_hash,))))


def revoke(token_hash: str, db: Database) -> list[str]:
    minted = (
        "WITH RECURSIVE minted (hash) AS (SELECT ?1 UNION SELECT t.hash FROM tokens t JOIN minted m"
        " ON t.minted_by = m.hash) DELETE FROM tokens WHERE hash IN (SELECT hash FROM minted) RETURNING hash"
    )
    return [hashed for (hashed,) in db.execute(minted, (token_hash,))]


def waiting(db: Database, session_id: str) -> list[InboxItem]:
    rows = db.execute(
        "SELECT i.item, i.key, i.kind, i.body FROM inbox i JOIN sessions s ON s.key = i.session"
        " WHERE s.id = ? AND i.taken = 0 ORDER BY i.item",
        (session_id,),
    )
    return [InboxItem(*row) for row in rows]


def approval(db: Database, approval_id: str) -> ApprovalRecord | None:
    sql = "SELECT id, run_id, call_id, digest, expires_at, state FROM approvals WHERE id = ?"
    found = list(db.execute(sql, (approval_id,)))
    return ApprovalRecord(*found[0]) if found else None


def decisions(db: Database, limit: int, session_id: str | None, since: int, user: str | None) -> list[Event]:
    """From the end of the index that contains only these events."""
    found = db.execute(
        "SELECT s.id, e.seq, e.ts, e.type, CAST(e.payload AS BLOB), e.run_id"
        " FROM events e INDEXED BY decisions CROSS JOIN sessions s ON s.key = e.session"
        " WHERE (e.type = 'approval_received' OR e.type = 'approval_expired' OR e.type = 'approval_policy_changed')"
        " AND e.ts >= ?1 AND (?2 IS NULL OR s.id = ?2) AND (?4 IS NULL OR s.user = ?4)"
        " ORDER BY e.ts DESC, e.session DESC, e.seq DESC LIMIT ?3",
        (since, session_id, limit, user),
    )
    newest = [Event(session, seq, ts, kind, Raw(payload), run) for session, seq, ts, kind, payload, run in found]
    return newest[::-1]


_TOKENS = """
SELECT t.hash, s.id, t.role, t.expires_at, t.boot, t.boot_ms, t.minted_by, t.kind
FROM tokens t JOIN sessions s ON s.key = t.session
"""


def tokens(db: Database, session_id: str) -> list[TokenRecord]:
    return [_token_of(*row) for row in db.execute(_TOKENS + "WHERE s.id = ?", (session_id,))]


def token(db: Database, token_hash: str) -> TokenRecord | None:
    found = list(db.execute(_TOKENS + "WHERE t.hash = ?", (token_hash,)))
    return _token_of(*found[0]) if found else None


def _token_of(hashed: str, session_id: str, role: Role, expires_at: int | None, *rest: Any) -> TokenRecord:
    boot, boot_ms, minted_by, kind = rest
    expires_at_boot = BootTime(boot, boot_ms) if boot else None
    return TokenRecord(hashed, session_id, role, expires_at, expires_at_boot, minted_by, kind)


def _key_of(db: Database, session_id: str) -> int:
    key = db.execute("SELECT key FROM sessions WHERE id = ?", (session_id,)).get
    if key is None:
        raise no_session(session_id)
    return key


def _position(db: Database, session: int, item: int) -> int:
    sql = "SELECT count(*) FROM inbox WHERE session = ? AND taken = 0 AND item <= ?"
    return db.execute(sql, (session, item)).get


_repos = msgspec.json.Decoder(Repo)
_facts = msgspec.json.Decoder(RowFacts)
