"""The tables of a shared log, and their versions.

Invariants: a migration is one transaction under a lock of the whole database, so of several nodes one does it; a node
refuses a schema that it does not know well enough to write to (`oldest` is the version of the oldest node that may).

Every column that an append changes is without an index, so that PostgreSQL can update the row in place (HOT).
"""

from buddy.errors import UserError
from buddy.log.postgres.driver import Connection, sqlstate_of

_LOCK = 0x42756464
_MIGRATE_SECONDS = 300.0

# `wakes` rises with every item that is put into the inbox: a node that lets a session go compares it.
# `write_id` is the id of the last write: after a lost answer it tells whether that was ours.
# `due` is when somebody should look at the session, `attempt` the last one that placement started.
_FIRST = """
CREATE TABLE sessions (
  key bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, id text NOT NULL UNIQUE, repo text NOT NULL,
  root_path text NOT NULL, mode text NOT NULL, state text NOT NULL, title text, title_folded text,
  place_folded text NOT NULL, archived boolean NOT NULL DEFAULT false, facts text,
  created_at bigint NOT NULL, updated_at bigint NOT NULL, first_seq bigint NOT NULL DEFAULT 1,
  last_seq bigint NOT NULL DEFAULT 0, epoch bigint NOT NULL, owner text, write_id bigint NOT NULL DEFAULT 0,
  wakes bigint NOT NULL DEFAULT 0, due bigint, attempt bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);
CREATE INDEX sessions_of_root ON sessions (root_path);
CREATE INDEX sessions_active ON sessions (key) WHERE state IN ('running', 'awaiting_approval');
CREATE INDEX sessions_due ON sessions (due) WHERE due IS NOT NULL;
CREATE TABLE owners (owner text PRIMARY KEY, seen bigint NOT NULL) WITH (fillfactor = 50);
CREATE TABLE events (
  session bigint NOT NULL, seq bigint NOT NULL, ts bigint NOT NULL, run_id text, type text NOT NULL,
  payload text NOT NULL, PRIMARY KEY (session, seq)
);
CREATE INDEX decisions ON events (ts, session, seq)
  WHERE type IN ('approval_received', 'approval_expired', 'approval_policy_changed');
CREATE TABLE keys (session bigint NOT NULL, key text NOT NULL, last_seq bigint, PRIMARY KEY (session, key));
CREATE TABLE claims (
  session bigint NOT NULL, call_id text NOT NULL, attempt integer NOT NULL, digest text NOT NULL,
  PRIMARY KEY (session, call_id, attempt)
);
CREATE TABLE approvals (
  id text PRIMARY KEY, session bigint NOT NULL, run_id text NOT NULL, call_id text NOT NULL, digest text NOT NULL,
  expires_at bigint NOT NULL, state text NOT NULL DEFAULT 'pending', decided_by text
);
CREATE INDEX approvals_of_session ON approvals (session);
CREATE TABLE inbox (
  item bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, session bigint NOT NULL, key text NOT NULL, kind text NOT NULL,
  body bytea NOT NULL, taken boolean NOT NULL DEFAULT false, UNIQUE (session, key)
);
CREATE INDEX inbox_waiting ON inbox (session, item) WHERE NOT taken;
CREATE TABLE tokens (
  hash text PRIMARY KEY, session bigint NOT NULL, role text NOT NULL, expires_at bigint, boot text, boot_ms bigint,
  minted_by text, kind text NOT NULL DEFAULT 'token', use_id bigint
);
CREATE INDEX tokens_of_session ON tokens (session);
CREATE INDEX tokens_minted ON tokens (minted_by) WHERE minted_by IS NOT NULL;
CREATE TABLE blobs (id text PRIMARY KEY, content bytea NOT NULL, stored_at timestamptz NOT NULL);
CREATE TABLE blob_refs (blob text NOT NULL, session bigint NOT NULL, PRIMARY KEY (blob, session));
CREATE INDEX blob_refs_of_session ON blob_refs (session);
CREATE TABLE documents (name text PRIMARY KEY, version bigint NOT NULL, content text NOT NULL);
"""

# Users of a fleet, and what the sessions that they deleted have cost.
_SECOND = """
ALTER TABLE sessions ADD COLUMN user_id text;
CREATE INDEX sessions_of_user ON sessions (user_id) WHERE user_id IS NOT NULL;
CREATE TABLE spent (user_id text NOT NULL, day bigint NOT NULL, cost_usd float8 NOT NULL, PRIMARY KEY (user_id, day));
"""

# The nodes of a fleet, which sessions belong to one, and requests that one node received and another serves.
_THIRD = """
ALTER TABLE sessions ADD COLUMN pinned text;
CREATE INDEX sessions_held ON sessions (owner) WHERE owner IS NOT NULL;
CREATE TABLE nodes (
  owner text PRIMARY KEY, name text NOT NULL, version text NOT NULL, state text NOT NULL, gateway boolean NOT NULL,
  worker boolean NOT NULL, labels text[] NOT NULL, pid integer NOT NULL, backend_start timestamptz,
  since bigint NOT NULL, seen bigint NOT NULL, runs integer NOT NULL DEFAULT 0, sessions integer NOT NULL DEFAULT 0
) WITH (fillfactor = 50);
CREATE TABLE requests (
  id text PRIMARY KEY, session text, node text, body bytea NOT NULL, state text NOT NULL DEFAULT 'waiting',
  served_by text, reply bytea, created_at bigint NOT NULL
);
CREATE INDEX requests_waiting ON requests (session) WHERE state = 'waiting';
"""

# Whose turn it is to count and change something of a user: one node at a time, until it is done or `until`.
_FOURTH = """
CREATE TABLE turns (name text PRIMARY KEY, owner text NOT NULL, until bigint NOT NULL) WITH (fillfactor = 50);
"""

# The last event that names a blob. What was named before, or by an older node, is kept with its session: such a node
# does not say the seq, and leaves a row alone that is there.
_FIFTH = """
ALTER TABLE blob_refs ADD COLUMN seq bigint NOT NULL DEFAULT 9223372036854775807;
CREATE FUNCTION buddy_name_blob() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE blob_refs SET seq = NEW.seq WHERE blob = NEW.blob AND session = NEW.session;
  RETURN NEW;
END $$;
CREATE TRIGGER named_by_an_older_node BEFORE INSERT ON blob_refs FOR EACH ROW
WHEN (NEW.session > 0 AND NEW.seq = 9223372036854775807) EXECUTE FUNCTION buddy_name_blob();
"""

# The script at index N migrates a database from version N to N + 1. Never change a released one.
MIGRATIONS = (_FIRST, _SECOND, _THIRD, _FOURTH, _FIFTH)
OLDEST = 1
"""The version of the oldest node that may write to the newest schema: raise it where a migration is not additive."""

_VERSION = "SELECT version, oldest FROM buddy_schema"
# Not by to_regclass(): it may answer from a cache that does not know yet what another node has just created.
_EXISTS = "SELECT EXISTS (SELECT FROM pg_class WHERE relname = 'buddy_schema' AND pg_table_is_visible(oid))"


async def prepare(connection: Connection, shown: str) -> None:
    """Create or migrate the tables; UserError if they are too new, or may not be created."""
    if await _version(connection, shown) >= len(MIGRATIONS):
        return
    try:
        await connection.execute("BEGIN")
        try:
            await connection.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
            await connection.execute(f"SELECT pg_advisory_xact_lock({_LOCK})", timeout=_MIGRATE_SECONDS)
            await _migrate(connection, await _version(connection, shown))
            await connection.execute("COMMIT")
        except BaseException:
            await connection.execute("ROLLBACK")
            raise
    except Exception as error:
        if sqlstate_of(error) != "42501":
            raise
        hint = "grant it: GRANT CREATE, USAGE ON SCHEMA public TO the user of the URL"
        raise UserError(f"{shown}: this user may not create tables ({error})", hint=hint) from error


async def _migrate(connection: Connection, version: int) -> None:
    if version == 0:
        await connection.execute(
            "CREATE TABLE buddy_schema (version integer NOT NULL, oldest integer NOT NULL);"
            "INSERT INTO buddy_schema VALUES (0, 0)"
        )
    for number in range(version, len(MIGRATIONS)):
        await connection.execute(MIGRATIONS[number], timeout=_MIGRATE_SECONDS)
    if version < len(MIGRATIONS):
        update = "UPDATE buddy_schema SET version = $1, oldest = $2"
        await connection.execute(update, len(MIGRATIONS), OLDEST)


async def _version(connection: Connection, shown: str) -> int:
    """The version of the tables, 0 if there are none."""
    ((exists,),) = await connection.fetch(_EXISTS)
    if not exists:
        return 0
    ((version, oldest),) = await connection.fetch(_VERSION)
    if oldest > len(MIGRATIONS):
        raise UserError(
            f"{shown} was upgraded by a newer Buddy (schema {version}, this one knows {len(MIGRATIONS)})",
            hint="upgrade Buddy on this machine, or use another database",
        )
    return version
