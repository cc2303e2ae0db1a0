"""The statements of placement in PostgreSQL: every write is one statement, by the server's clock.

Invariants:
- a node takes only while its own beats are on time, and judges a silence only while they have been for one TTL;
- a node lives if it was seen within the TTL. It is lost sooner if the connection of its heartbeat was closed while that
  of the node which judges stayed open: what closes both is a fault of the database, or between it and the nodes;
- of several nodes that take at the same time, one does, and the others find nothing (`turn`).

Numbers of milliseconds: $2 is the TTL, everywhere.
"""

LOCK = 0x4E6F6465
_NOW = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"

_CLOCK = f"clock AS MATERIALIZED (SELECT {_NOW} AS now)"
# A role that may not see the sessions of another gets no `backend_start`: then the process is all it can compare.
_CONNECTED = """
EXISTS (SELECT FROM pg_stat_activity a
  WHERE a.pid = n.pid AND (a.backend_start = n.backend_start OR a.backend_start IS NULL))"""
_LIVING = f"""
me AS MATERIALIZED (
  SELECT n.name, n.seen > now - $2::bigint / 2 AS is_on_time, n.since <= now - $2::bigint AS may_judge,
    CASE WHEN {_CONNECTED} THEN (extract(epoch FROM n.backend_start) * 1000)::bigint END AS connected_at
  FROM nodes n, clock WHERE n.owner = $1 AND n.state = 'ready' AND n.seen > now - $2::bigint
),
gone AS MATERIALIZED (
  SELECT n.owner FROM nodes n, me, clock
  WHERE is_on_time AND n.seen > connected_at AND n.seen <= now - $2::bigint / 3 AND NOT {_CONNECTED}
),
living AS MATERIALIZED (
  SELECT n.owner, n.name FROM nodes n, clock
  WHERE n.seen > now - $2::bigint AND n.owner NOT IN (SELECT owner FROM gone)
)"""  # noqa: S608 - constants only
_IS_LOST = """
(s.owner IN (SELECT owner FROM gone)
  OR ((SELECT may_judge FROM me) AND s.owner NOT IN (SELECT owner FROM living)))"""
# $3: after so long the sessions that belong to a lost node may be taken by others, to end their runs; null is never.
_PLACE = """
(s.pinned IS NULL OR s.pinned = (SELECT name FROM me) OR (
  s.pinned NOT IN (SELECT name FROM living)
  AND coalesce((SELECT max(n.seen) FROM nodes n WHERE n.name = s.pinned), 0) < now - $3::bigint))"""

JOIN_CHECK = f"""
SELECT n.owner, n.seen > {_NOW} - $2::bigint FROM nodes n
WHERE n.name = $1 AND n.owner <> $3 AND (n.gateway OR n.worker)
"""  # noqa: S608 - constants only
REMOVE = "DELETE FROM nodes WHERE owner = ANY($1::text[])"
LEAVE = f"UPDATE nodes SET seen = least(seen, {_NOW} - $2::bigint - 1), state = 'stopped' WHERE owner = $1"  # noqa: S608 - constants only

BEAT = f"""
WITH {_CLOCK},
old AS (DELETE FROM nodes USING clock WHERE seen < now - 86400000 AND owner <> $1),
stale AS (DELETE FROM requests USING clock WHERE created_at < now - 3600000),
beat AS (
  INSERT INTO nodes
    (owner, name, version, state, gateway, worker, labels, pid, backend_start, since, seen, runs, sessions)
  SELECT $1, $3, $4, 'ready', $5, $6, $7::text[], pg_backend_pid(),
    (SELECT backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()), now, now, $8, $9 FROM clock
  ON CONFLICT (owner) DO UPDATE SET seen = excluded.seen, pid = excluded.pid, backend_start = excluded.backend_start,
    since = CASE WHEN nodes.seen < excluded.seen - $2::bigint / 2 THEN excluded.seen ELSE nodes.since END,
    runs = excluded.runs, sessions = excluded.sessions,
    state = CASE WHEN nodes.state = 'stopped' THEN 'ready' ELSE nodes.state END
  RETURNING state
)
SELECT (SELECT state FROM beat),
  (SELECT coalesce(array_agg(id || ':' || epoch), '{{}}') FROM sessions WHERE owner = $1),
  (SELECT count(*) FROM sessions s, clock WHERE s.due <= now AND s.owner IS NULL)
"""  # noqa: S608 - constants only

# $4: the most to take, $5: the most runs of one user, or null. Each user's first comes before any user's second.
_READY = f"""
work AS (
  SELECT key FROM sessions, clock WHERE due <= now
  UNION SELECT key FROM sessions WHERE state IN ('running', 'awaiting_approval')
),
ready AS MATERIALIZED (
  SELECT s.key, s.epoch, s.user_id, s.owner, s.state, coalesce(s.due, 0) AS due,
    coalesce(CASE WHEN s.owner IS NULL THEN s.due ELSE (SELECT n.seen FROM nodes n WHERE n.owner = s.owner) END,
      s.updated_at) AS waits_since,
    row_number() OVER (PARTITION BY s.user_id ORDER BY s.due NULLS FIRST, s.key) AS rank
  FROM sessions s JOIN work ON work.key = s.key, clock
  WHERE (SELECT mine FROM turn) AND (SELECT is_on_time FROM me) AND {_PLACE} AND (
    (s.owner IS NULL AND (s.due <= now OR s.state = 'running')) OR (s.owner <> $1 AND {_IS_LOST}))
),
held AS (
  SELECT s.user_id, count(*) AS runs FROM sessions s JOIN living l ON l.owner = s.owner
  WHERE s.state = 'running' AND s.user_id IS NOT NULL GROUP BY s.user_id
)"""  # noqa: S608 - constants only
_ALLOWED = """
(r.user_id IS NULL OR r.state <> 'running' OR $5::bigint IS NULL OR r.rank + coalesce(h.runs, 0) <= $5::bigint)"""
# The epoch is compared again with the locked row: a session that somebody acquired since the snapshot is not taken.
# $6: only those that belong to this node, or have waited for so long.
TAKE = f"""
WITH turn AS MATERIALIZED (SELECT pg_try_advisory_xact_lock({LOCK}) AS mine), {_CLOCK}, {_LIVING}, {_READY},
chosen AS (
  SELECT s.key, r.owner AS lost FROM ready r JOIN sessions s ON s.key = r.key AND s.epoch = r.epoch
  LEFT JOIN held h ON h.user_id = r.user_id
  WHERE {_ALLOWED} AND (
    $6::bigint IS NULL OR s.pinned = (SELECT name FROM me) OR r.waits_since <= (SELECT now FROM clock) - $6::bigint)
  ORDER BY r.rank, r.due, s.key LIMIT $4 FOR UPDATE OF s SKIP LOCKED
)
UPDATE sessions s SET epoch = s.epoch + 1, owner = $1, due = NULL FROM chosen WHERE s.key = chosen.key
RETURNING s.id, s.epoch, chosen.lost
"""  # noqa: S608 - constants only
# The same, only looked at: another system says who takes them.
WAITING = f"""
WITH turn AS MATERIALIZED (SELECT true AS mine), {_CLOCK}, {_LIVING}, {_READY}
SELECT s.id, s.attempt, s.user_id FROM ready r JOIN sessions s ON s.key = r.key
LEFT JOIN held h ON h.user_id = r.user_id
WHERE {_ALLOWED} AND s.pinned IS DISTINCT FROM (SELECT name FROM me)
ORDER BY r.rank, r.due, s.key LIMIT $4
"""  # noqa: S608 - constants only
LOOK = f"""
WITH {_CLOCK}, {_LIVING}
SELECT s.attempt, (SELECT l.name FROM living l WHERE l.owner = s.owner),
  s.due <= now OR s.state = 'running' OR (s.owner IS NOT NULL AND s.state = 'awaiting_approval')
FROM sessions s, clock WHERE s.id = $3
"""  # noqa: S608 - constants only
# $6: the number of this attempt; one that was given up takes nothing. $5: as above, also for those that were asked for
# at the same time.
TAKE_ATTEMPT = f"""
WITH {_CLOCK}, {_LIVING}, before AS (SELECT owner, user_id FROM sessions WHERE id = $4),
turn AS MATERIALIZED (
  SELECT user_id IS NULL OR $5::bigint IS NULL OR pg_try_advisory_xact_lock({LOCK}, hashtext(user_id)) AS mine
  FROM before
),
held AS (
  SELECT count(*) AS runs FROM sessions s JOIN living l ON l.owner = s.owner
  WHERE s.state = 'running' AND s.user_id = (SELECT user_id FROM before)
)
UPDATE sessions s SET epoch = s.epoch + 1, owner = $1, due = NULL, attempt = $6 FROM clock
WHERE s.id = $4 AND s.attempt < $6 AND (SELECT is_on_time FROM me) AND (SELECT mine FROM turn) AND {_PLACE}
  AND (s.owner IS NULL OR {_IS_LOST})
  AND (s.user_id IS NULL OR s.state <> 'running' OR $5::bigint IS NULL OR (SELECT runs FROM held) < $5::bigint)
RETURNING s.epoch, (SELECT owner FROM before)
"""  # noqa: S608 - constants only

ACQUIRE = f"""
WITH {_CLOCK}, {_LIVING}
UPDATE sessions s SET epoch = s.epoch + 1, owner = $1, due = NULL FROM clock
WHERE s.id = $4 AND EXISTS (SELECT FROM me) AND {_PLACE} AND (
  s.owner IS NULL OR s.owner = $1 OR {_IS_LOST})
RETURNING s.epoch
"""  # noqa: S608 - constants only
EXISTS = "SELECT 1 FROM sessions WHERE id = $1"

# A put that came after the last look at the requests raised `wakes`, so somebody has to look again.
RELEASE = f"""
UPDATE sessions SET owner = NULL,
  due = CASE WHEN $4::boolean OR wakes IS DISTINCT FROM $3::bigint THEN {_NOW} ELSE $5::bigint END
WHERE id = $1 AND epoch = $2
"""  # noqa: S608 - constants only
PIN = "UPDATE sessions SET pinned = $3 WHERE id = $1 AND epoch = $2"
PINNED = f"""
WITH {_CLOCK}
SELECT s.pinned, EXISTS (SELECT FROM nodes n, clock WHERE n.name = s.pinned AND n.seen > now - $2::bigint)
FROM sessions s WHERE s.id = $1
"""  # noqa: S608 - constants only

NODES = f"""
WITH {_CLOCK}
SELECT owner, name, version, CASE WHEN seen > now - $1::bigint OR state = 'stopped' THEN state ELSE 'lost' END,
  gateway, worker, labels, runs, sessions, seen FROM nodes, clock ORDER BY name, seen
"""  # noqa: S608 - constants only
SET_STATE = f"""
UPDATE nodes SET state = $2 WHERE name = $1 AND seen > {_NOW} - $3::bigint RETURNING owner
"""  # noqa: S608 - constants only

# --- turns ---

# $3: for how long, if it is not given back. A lost answer is repeated, so one's own turn is no hindrance.
TAKE_TURN = f"""
INSERT INTO turns (name, owner, until) SELECT $1, $2, {_NOW} + $3::bigint
ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, until = excluded.until
WHERE turns.owner = excluded.owner OR turns.until < {_NOW}
RETURNING owner
"""
END_TURN = "DELETE FROM turns WHERE name = $1 AND owner = $2"

# --- requests that another node serves ---

PUT = f"""
WITH woken AS (
  UPDATE sessions SET wakes = wakes + 1, due = CASE WHEN owner IS NULL THEN {_NOW} ELSE due END WHERE id = $2
  RETURNING id
)
INSERT INTO requests (id, session, body, created_at) SELECT $1, id, $3, {_NOW} FROM woken
ON CONFLICT (id) DO NOTHING
"""  # noqa: S608 - constants only
PUT_ANYWHERE = f"""
WITH {_CLOCK}
INSERT INTO requests (id, node, body, created_at)
SELECT $1, n.owner, $2, now FROM nodes n, clock
WHERE n.worker AND n.state = 'ready' AND n.seen > now - $3::bigint ORDER BY n.runs, n.sessions, random() LIMIT 1
ON CONFLICT (id) DO NOTHING RETURNING node
"""  # noqa: S608 - constants only
# What was woken is read in the snapshot of the requests: a put that is not in it raises the number again.
SERVE = """
WITH mine AS (SELECT id, wakes FROM sessions WHERE owner = $1),
taken AS (
  UPDATE requests r SET state = 'taken', served_by = $1
  WHERE r.state = 'waiting' AND (r.node = $1 OR r.session IN (SELECT id FROM mine)) RETURNING r.id, r.session, r.body
)
SELECT NULL::text, m.id, m.wakes, NULL::bytea FROM mine m
UNION ALL SELECT t.id, t.session, NULL, t.body FROM taken t
"""
REPLY = "UPDATE requests SET state = 'done', reply = $2 WHERE id = $1 AND served_by = $3"
RETURN = f"""
WITH back AS (
  UPDATE requests SET state = 'waiting', served_by = NULL
  WHERE id = $1 AND state = 'taken' AND served_by = $2 RETURNING session
)
UPDATE sessions s SET wakes = wakes + 1, due = CASE WHEN owner IS NULL THEN {_NOW} ELSE due END
FROM back WHERE s.id = back.session
"""  # noqa: S608 - constants only
# Read, not removed: a lost answer must not lose the reply.
ANSWERS = f"""
WITH {_CLOCK}
SELECT r.id, r.state, r.reply,
  r.state = 'taken' AND NOT EXISTS (SELECT FROM nodes n WHERE n.owner = r.served_by AND n.seen > now - $2::bigint)
FROM requests r, clock WHERE r.id = ANY($1::text[]) AND r.state <> 'waiting'
"""  # noqa: S608 - constants only
FORGET = "DELETE FROM requests WHERE id = $1 AND state <> 'taken' RETURNING state, reply"
