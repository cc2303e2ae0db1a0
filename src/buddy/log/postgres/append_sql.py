"""The statements of an append: all that waits in this process, in one statement under the epochs and seqs of its
sessions.

Invariants: a refused batch is absent from the answer and has written nothing; the batches are numbered (`n`), and
everything that belongs to one is written only if the head of its session was advanced by it.
"""

_BATCHES = """
WITH b AS (
  SELECT * FROM unnest($1::int[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::text[],
    $8::text[], $9::text[], $10::text[], $11::boolean[], $12::bigint[])
  AS b(n, id, epoch, expected, last, used, state, title, folded, facts, archived, write_id)
)"""

_HEADS = """,
heads AS (
  UPDATE sessions s SET last_seq = b.last, updated_at = coalesce(b.used, s.updated_at),
    state = coalesce(b.state, s.state), title = coalesce(b.title, s.title),
    title_folded = coalesce(b.folded, s.title_folded), facts = coalesce(b.facts, s.facts),
    archived = coalesce(b.archived, s.archived), write_id = b.write_id
  FROM b WHERE s.id = b.id AND s.epoch = b.epoch AND s.last_seq = b.expected %s
  RETURNING s.key, b.n
),
written AS (
  INSERT INTO events (session, seq, ts, run_id, type, payload)
  SELECT heads.key, e.seq, e.ts, e.run_id, e.type, e.payload
  FROM unnest($13::int[], $14::bigint[], $15::bigint[], $16::text[], $17::text[], $18::text[])
    AS e(n, seq, ts, run_id, type, payload)
  JOIN heads ON heads.n = e.n
)"""

_ANSWER = "\nSELECT n FROM heads"

# What must not be there yet, or must still be pending. A seq or epoch that is checked with the lock on the session's
# row makes this safe: nobody else writes these rows for the session.
_REFUSED = """,
k AS (SELECT * FROM unnest($19::int[], $20::text[], $21::bigint[]) AS k(n, key, last)),
c AS (SELECT * FROM unnest($22::int[], $23::text[], $24::int[], $25::text[]) AS c(n, call_id, attempt, digest)),
a AS (
  SELECT * FROM unnest($26::int[], $27::text[], $28::text[], $29::text[], $30::text[], $31::bigint[], $32::text[],
    $33::text[]) AS a(n, id, run_id, call_id, digest, expires_at, state, decided_by)
),
d AS (SELECT * FROM unnest($34::int[], $35::text[], $36::text[], $37::text[]) AS d(n, id, state, decided_by)),
t AS (SELECT * FROM unnest($38::int[], $39::bigint[]) AS t(n, item)),
r AS (SELECT * FROM unnest($40::int[], $41::text[], $42::bigint[]) AS r(n, blob, seq)),
refused AS (
  SELECT k.n FROM k JOIN b ON b.n = k.n JOIN sessions s ON s.id = b.id
    JOIN keys x ON x.session = s.key AND x.key = k.key WHERE x.last_seq IS NOT NULL
  UNION ALL
  SELECT c.n FROM c JOIN b ON b.n = c.n JOIN sessions s ON s.id = b.id
    JOIN claims x ON x.session = s.key AND x.call_id = c.call_id AND x.attempt = c.attempt
  UNION ALL
  SELECT a.n FROM a JOIN approvals x ON x.id = a.id
  UNION ALL
  SELECT d.n FROM d JOIN b ON b.n = d.n JOIN sessions s ON s.id = b.id
    WHERE NOT EXISTS (SELECT FROM approvals x WHERE x.id = d.id AND x.session = s.key AND x.state = 'pending')
)"""

_ROWS = """,
keyed AS (
  INSERT INTO keys AS x (session, key, last_seq) SELECT heads.key, k.key, k.last FROM k JOIN heads ON heads.n = k.n
  ON CONFLICT (session, key) DO UPDATE SET last_seq = excluded.last_seq
),
claimed AS (
  INSERT INTO claims (session, call_id, attempt, digest)
  SELECT heads.key, c.call_id, c.attempt, c.digest FROM c JOIN heads ON heads.n = c.n
),
asked AS (
  INSERT INTO approvals (id, session, run_id, call_id, digest, expires_at, state, decided_by)
  SELECT a.id, heads.key, a.run_id, a.call_id, a.digest, a.expires_at, a.state, a.decided_by
  FROM a JOIN heads ON heads.n = a.n
),
decided AS (
  UPDATE approvals x SET state = d.state, decided_by = d.decided_by FROM d JOIN heads ON heads.n = d.n
  WHERE x.id = d.id
),
taken AS (
  UPDATE inbox x SET taken = true, body = '' FROM t JOIN heads ON heads.n = t.n
  WHERE x.item = t.item AND x.session = heads.key
),
named AS (
  INSERT INTO blob_refs AS x (blob, session, seq)
  SELECT r.blob, heads.key, max(r.seq) FROM r JOIN heads ON heads.n = r.n GROUP BY r.blob, heads.key
  ON CONFLICT (blob, session) DO UPDATE SET seq = greatest(x.seq, excluded.seq)
)"""

APPEND = _BATCHES + _HEADS % "" + _ANSWER
"""Events, heads and what the list shows; most appends are no more."""

APPEND_ROWS = (
    _BATCHES + _REFUSED + _HEADS % "AND NOT EXISTS (SELECT FROM refused WHERE refused.n = b.n)" + _ROWS + _ANSWER
)
"""The same, with keys, claims, approvals, decisions, taken items and named blobs."""

WHY = """
SELECT s.epoch, s.last_seq, s.write_id,
  (SELECT k.last_seq FROM keys k WHERE k.session = s.key AND k.key = $2),
  EXISTS (SELECT FROM claims c WHERE c.session = s.key AND c.call_id = $3 AND c.attempt = $4),
  (SELECT a.state FROM approvals a WHERE a.id = $5),
  (SELECT a.state FROM approvals a WHERE a.id = $6 AND a.session = s.key)
FROM sessions s WHERE s.id = $1
"""
"""What a refused batch met."""

LOOK_UP = """
UPDATE sessions SET write_id = write_id WHERE id = ANY($1::text[]) RETURNING id, epoch, write_id
"""
"""The last writes of some sessions, after a lost answer.

An update, not a select: it waits for the lost statement if that is still running, and its own commit waits until the
standby has everything before it.
"""
