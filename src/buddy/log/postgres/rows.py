"""The statements of sessions, leases, the inbox and tokens: each write is one statement, safe to be sent twice.

Invariants: an epoch only rises; an inbox key is queued only once, ever; deleting a session deletes all its rows.
"""

import msgspec
from msgspec import Raw

from buddy.log.contract import (
    INCOMPLETE,
    InboxItem,
    RowFacts,
    SessionQuery,
    SessionRecord,
    TokenRecord,
    searched_text,
)
from buddy.log.postgres.driver import Row
from buddy.log.postgres.texts import folded, text
from buddy.protocol.envelopes import Event
from buddy.protocol.shapes import BootTime, Repo

_NOW = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
_RECORD = """
SELECT id, repo, mode, state, created_at, updated_at, first_seq, last_seq, title, archived, facts, user_id
FROM sessions
"""
GET = f"{_RECORD} WHERE id = $1 AND state <> '{INCOMPLETE}'"
INCOMPLETE_IDS = f"SELECT id FROM sessions WHERE state = '{INCOMPLETE}'"  # noqa: S608 - a constant
EXISTS = "SELECT 1 FROM sessions WHERE id = $1"
ACTIVE = f"{_RECORD} WHERE state IN ('running', 'awaiting_approval') ORDER BY key"
FIND = f"""
{_RECORD} WHERE ($1::text IS NULL OR root_path = $1) AND state <> '{INCOMPLETE}' AND ($2::text IS NULL OR state = $2)
AND ($3::boolean IS NULL OR archived = $3) AND ($8::text IS NULL OR user_id = $8)
AND ($4::bigint IS NULL OR (updated_at, key) < ($4, coalesce((SELECT key FROM sessions WHERE id = $5), 0)))
AND NOT EXISTS (
  SELECT FROM unnest($6::text[]) AS word WHERE position(word IN concat(title_folded, E'\\n', place_folded)) = 0
) ORDER BY updated_at DESC, key DESC LIMIT $7
"""  # noqa: S608 - constants only

CREATE = f"""
WITH beat AS (
  INSERT INTO owners VALUES ($11, coalesce($13::bigint, {_NOW})) ON CONFLICT (owner) DO UPDATE SET seen = excluded.seen
), made AS (
  INSERT INTO sessions (id, repo, root_path, place_folded, mode, state, title, title_folded, archived, facts,
    created_at, updated_at, epoch, owner, write_id, user_id, first_seq, last_seq)
  VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $14, $15, 1, $11, $12, $16, $17::bigint, $17 - 1)
  ON CONFLICT (id) DO NOTHING RETURNING id
)
SELECT EXISTS (SELECT FROM made) OR EXISTS (SELECT FROM sessions WHERE id = $1 AND write_id = $12)
"""  # noqa: S608 - constants only

HOLDER = f"""
SELECT s.epoch, s.owner, o.seen, coalesce($2::bigint, {_NOW})
FROM sessions s LEFT JOIN owners o ON o.owner = s.owner WHERE s.id = $1
"""  # noqa: S608 - constants only
HOLDERS = f"""
SELECT s.id, s.owner, o.seen, coalesce($1::bigint, {_NOW}) FROM sessions s LEFT JOIN owners o ON o.owner = s.owner
WHERE s.state IN ('running', 'awaiting_approval') ORDER BY s.key
"""  # noqa: S608 - constants only
ACQUIRE = f"""
WITH beat AS (
  INSERT INTO owners VALUES ($2, coalesce($4::bigint, {_NOW})) ON CONFLICT (owner) DO UPDATE SET seen = excluded.seen
)
UPDATE sessions SET epoch = epoch + 1, owner = $2 WHERE id = $1 AND epoch = $3 RETURNING epoch
"""  # noqa: S608 - constants only
RELEASE = "UPDATE sessions SET owner = NULL WHERE id = $1 AND epoch = $2"
RENEW = f"""
WITH gone AS (DELETE FROM owners WHERE seen < coalesce($2::bigint, {_NOW}) - 86400000 AND owner <> $1)
INSERT INTO owners VALUES ($1, coalesce($2::bigint, {_NOW})) ON CONFLICT (owner) DO UPDATE SET seen = excluded.seen
"""  # noqa: S608 - constants only

PRUNE = """
WITH head AS (
  UPDATE sessions SET first_seq = greatest(first_seq, least($3, last_seq + 1))
  WHERE id = $1 AND epoch = $2 RETURNING key, first_seq
), gone AS (DELETE FROM events e USING head WHERE e.session = head.key AND e.seq < head.first_seq
), remaining AS (
  SELECT key, (
    SELECT run_id FROM events e WHERE e.session = key AND e.seq >= first_seq AND run_id IS NOT NULL ORDER BY seq LIMIT 1
  ) AS run_id FROM head
), claimed AS (
  DELETE FROM claims c USING remaining r
  WHERE c.session = r.key AND (r.run_id IS NULL OR c.call_id COLLATE "C" < r.run_id)
), asked AS (
  DELETE FROM approvals a USING remaining r
  WHERE a.session = r.key AND a.state <> 'pending' AND (r.run_id IS NULL OR a.run_id COLLATE "C" < r.run_id)
), pruned AS (
  DELETE FROM blob_refs x USING head WHERE x.session = head.key AND x.seq < head.first_seq RETURNING x.blob
), released AS (
  DELETE FROM blob_refs x USING head, pruned p WHERE x.session = -head.key AND x.blob = p.blob AND NOT EXISTS (
    SELECT FROM inbox i WHERE i.session = head.key AND NOT i.taken
    AND position(convert_to(x.blob, 'UTF8') IN i.body) > 0
  )
), unowned AS (INSERT INTO blob_refs (blob, session) SELECT DISTINCT blob, 0 FROM pruned ON CONFLICT DO NOTHING)
SELECT first_seq FROM head
"""

# The blobs become unowned (session 0) until it is known that no other session names them.
DELETE = """
WITH gone AS (
    DELETE FROM sessions WHERE id = $1 AND ($2::bigint IS NULL OR epoch = $2)
    RETURNING key, user_id, facts::json AS facts
  ),
  cost AS (
    INSERT INTO spent AS s
    SELECT coalesce(user_id, ''), (facts ->> 'day')::bigint, (facts ->> 'day_cost_usd')::float8 FROM gone
    WHERE (facts ->> 'day_cost_usd')::float8 > 0
    ON CONFLICT (user_id, day) DO UPDATE SET cost_usd = s.cost_usd + excluded.cost_usd
  ),
  e AS (DELETE FROM events x USING gone WHERE x.session = gone.key),
  k AS (DELETE FROM keys x USING gone WHERE x.session = gone.key),
  c AS (DELETE FROM claims x USING gone WHERE x.session = gone.key),
  a AS (DELETE FROM approvals x USING gone WHERE x.session = gone.key),
  i AS (DELETE FROM inbox x USING gone WHERE x.session = gone.key),
  t AS (DELETE FROM tokens x USING gone WHERE x.session = gone.key),
  r AS (DELETE FROM blob_refs x USING gone WHERE x.session IN (gone.key, -gone.key) RETURNING x.blob),
  unowned AS (INSERT INTO blob_refs (blob, session) SELECT DISTINCT blob, 0 FROM r ON CONFLICT DO NOTHING)
SELECT count(*) FROM gone
"""

USAGE = """
SELECT count(*), count(*) FILTER (WHERE state IN ('running', 'awaiting_approval')),
  coalesce(sum((facts::json ->> 'day_cost_usd')::float8) FILTER (WHERE (facts::json ->> 'day')::bigint = $2), 0)
  + coalesce((SELECT cost_usd FROM spent WHERE user_id = $1 AND day = $2), 0)
FROM sessions WHERE user_id = $1
"""

# A session that cost something on a day was used on it or later.
COST = """
SELECT coalesce((
  SELECT sum((facts::json ->> 'day_cost_usd')::float8) FROM sessions
  WHERE updated_at >= $1::bigint * 86400000 AND (facts::json ->> 'day')::bigint = $1::bigint
), 0) + coalesce((SELECT sum(cost_usd) FROM spent WHERE day = $1::bigint), 0)
"""

# The session's row first: an append locks it first, too, so the two cannot wait for each other.
PUT = """
WITH known AS (
  SELECT k.last_seq, i.item, i.taken FROM sessions s JOIN keys k ON k.session = s.key AND k.key = $2
  LEFT JOIN inbox i ON i.session = s.key AND i.key = $2 WHERE s.id = $1
), waiting AS (
  SELECT count(i.item) AS n, count(i.item) FILTER (WHERE i.item <= (SELECT item FROM known)) AS place
  FROM sessions s JOIN inbox i ON i.session = s.key AND NOT i.taken WHERE s.id = $1
), woken AS (
  UPDATE sessions SET wakes = wakes + 1 WHERE id = $1 AND NOT EXISTS (SELECT FROM known)
  AND (SELECT n FROM waiting) < $5 RETURNING key
), reserved AS (
  INSERT INTO keys (session, key) SELECT key, $2 FROM woken ON CONFLICT DO NOTHING RETURNING session
), queued AS (
  INSERT INTO inbox (session, key, kind, body) SELECT session, $2, $3, $4 FROM reserved RETURNING item
)
SELECT (SELECT n FROM waiting), EXISTS (SELECT FROM queued), EXISTS (SELECT FROM known),
  (SELECT last_seq IS NOT NULL OR coalesce(taken, true) FROM known),
  (SELECT last_seq IS NULL AND coalesce(taken, false) FROM known), (SELECT place FROM waiting)
FROM sessions WHERE id = $1
"""
# A key whose item was taken back, so that no batch has it.
FREE = """
WITH s AS (SELECT key FROM sessions WHERE id = $1 FOR UPDATE), freed AS (
  DELETE FROM keys k USING s, inbox i
  WHERE k.session = s.key AND k.key = $2 AND k.last_seq IS NULL AND i.session = s.key AND i.key = $2 AND i.taken
  RETURNING k.session
)
DELETE FROM inbox i USING freed WHERE i.session = freed.session AND i.key = $2 AND i.taken
"""
WAITING = """
SELECT i.item, i.key, i.kind, i.body FROM inbox i JOIN sessions s ON s.key = i.session
WHERE s.id = $1 AND NOT i.taken ORDER BY i.item
"""

APPROVAL = "SELECT id, run_id, call_id, digest, expires_at, state FROM approvals WHERE id = $1"
DECISIONS = """
SELECT s.id, e.seq, e.ts, e.type, e.payload, e.run_id FROM events e JOIN sessions s ON s.key = e.session
WHERE e.type IN ('approval_received', 'approval_expired', 'approval_policy_changed')
AND e.ts >= $1 AND ($2::text IS NULL OR s.id = $2) AND ($4::text IS NULL OR s.user_id = $4)
ORDER BY e.ts DESC, e.session DESC, e.seq DESC LIMIT $3
"""

_TOKENS = """
SELECT t.hash, s.id, t.role, t.expires_at, t.boot, t.boot_ms, t.minted_by, t.kind
FROM tokens t JOIN sessions s ON s.key = t.session
"""
BY_HASH = f"{_TOKENS} WHERE t.hash = $1"
OF_SESSION = f"{_TOKENS} WHERE s.id = $1"
MINT = """
WITH session AS (SELECT key FROM sessions WHERE id = $2),
parent AS (SELECT hash FROM tokens WHERE hash = $7 FOR KEY SHARE),
stored AS (
  INSERT INTO tokens (hash, session, role, expires_at, boot, boot_ms, minted_by, kind)
  SELECT $1, key, $3, $4, $5, $6, $7, $8 FROM session WHERE $7::text IS NULL OR EXISTS (SELECT FROM parent)
  ON CONFLICT (hash) DO UPDATE SET session = excluded.session, role = excluded.role, expires_at = excluded.expires_at,
    boot = excluded.boot, boot_ms = excluded.boot_ms, minted_by = excluded.minted_by, kind = excluded.kind
  RETURNING hash
)
SELECT EXISTS (SELECT FROM stored) FROM session
"""
USE_LINK = """
UPDATE tokens SET kind = 'used_link', use_id = $2
WHERE hash = $1 AND (kind = 'link' OR (kind = 'used_link' AND use_id = $2)) RETURNING hash
"""
_MINTED = """
WITH RECURSIVE minted (hash) AS (
  SELECT unnest($1::text[]) UNION SELECT t.hash FROM tokens t JOIN minted m ON t.minted_by = m.hash
)
"""
MINTED = f"{_MINTED} SELECT t.hash FROM tokens t JOIN minted m ON m.hash = t.hash"  # noqa: S608 - constants only
REVOKE = f"{_MINTED} DELETE FROM tokens WHERE hash IN (SELECT hash FROM minted) RETURNING hash"  # noqa: S608 - constants only


def record_of(row: Row) -> SessionRecord:
    session_id, repo, *columns, archived, facts, user = row
    found = _facts.decode(facts) if facts else RowFacts()
    if found.archived is not archived:
        found = msgspec.structs.replace(found, archived=archived)
    return SessionRecord(session_id, _repos.decode(repo), *columns, facts=found, user=user)


def find_values(query: SessionQuery) -> tuple[object, ...]:
    used, session_id = query.after or (None, None)
    words = [text(word) for word in query.words]
    limit, user = max(query.limit, 0), text(query.user)
    return (text(query.root_path), query.state, query.archived, used, session_id, words, limit, user)


def create_values(record: SessionRecord, state: str, owner: str, write_id: int, beat: int | None) -> tuple[object, ...]:
    repo = record.repo
    place = searched_text(repo.root_path, repo.current_branch, record.session_id)
    return (
        *(record.session_id, msgspec.json.encode(repo).decode(), text(repo.root_path), text(place), record.mode),
        *(state, text(record.title), folded(record.title), record.facts.archived),
        *(msgspec.json.encode(record.facts).decode(), owner, write_id, beat, record.created_at, record.updated_at),
        *(text(record.user), record.first_seq),
    )


def token_values(token: TokenRecord) -> tuple[object, ...]:
    boot = token.expires_at_boot
    return (
        *(token.token_hash, token.session_id, token.role, token.expires_at),
        *(boot.boot if boot else None, boot.ms if boot else None, token.minted_by, token.kind),
    )


def token_of(row: Row) -> TokenRecord:
    hashed, session_id, role, expires_at, boot, boot_ms, minted_by, kind = row
    expires_at_boot = BootTime(boot, boot_ms) if boot else None
    return TokenRecord(hashed, session_id, role, expires_at, expires_at_boot, minted_by, kind)


def item_of(row: Row) -> InboxItem:
    item, key, kind, body = row
    return InboxItem(item, key, kind, bytes(body))


def event_of(session_id: str, row: Row) -> Event:
    seq, ts, kind, payload, run_id = row
    return Event(session_id, seq, ts, kind, Raw(payload.encode()), run_id)


_repos = msgspec.json.Decoder(Repo)
_facts = msgspec.json.Decoder(RowFacts)
