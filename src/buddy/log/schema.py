"""The database file: its tables, its versions, and how it is opened.

Invariants: a file under the final name has a schema, because a new one is built under another name and linked into
place; a file that is not ours, damaged or from a newer version is left as it is and named in the error.
"""

import os
import stat
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path

import apsw

from buddy.errors import UserError
from buddy.log.contract import searched_text
from buddy.log.database import Database, connect, connect_reader
from buddy.log.state_use import StateUse
from buddy.protocol.titles import title_of

APPLICATION_ID = 0x42756464
PAGE = 2048
"""Page size in bytes. A commit writes every touched page completely, and a small append touches four: the usual 4096
would double what is written, to read long logs about 10 % faster."""
BUSY_SECONDS = 5.0

# Events are in a rowid table: rows are appended in order of arrival, and only the small index has random writes.
# WITHOUT ROWID reads about 10 % faster, but with a hundred sessions it writes at half the speed or less.
_FIRST = """
CREATE TABLE sessions (
  key INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, repo TEXT NOT NULL, root_path TEXT NOT NULL,
  mode TEXT NOT NULL, state TEXT NOT NULL, title TEXT, created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL,
  first_seq INTEGER NOT NULL DEFAULT 1, last_seq INTEGER NOT NULL DEFAULT 0, epoch INTEGER NOT NULL, owner TEXT
) STRICT;
CREATE TABLE owners (owner TEXT PRIMARY KEY, seen INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE events (
  session INTEGER NOT NULL, seq INTEGER NOT NULL, ts INTEGER NOT NULL, run_id TEXT, type TEXT NOT NULL,
  payload TEXT NOT NULL, PRIMARY KEY (session, seq)
) STRICT;
CREATE TABLE keys (
  session INTEGER NOT NULL, key TEXT NOT NULL, last_seq INTEGER NOT NULL, PRIMARY KEY (session, key)
) STRICT, WITHOUT ROWID;
CREATE TABLE claims (
  session INTEGER NOT NULL, call_id TEXT NOT NULL, attempt INTEGER NOT NULL, digest TEXT NOT NULL,
  PRIMARY KEY (session, call_id, attempt)
) STRICT, WITHOUT ROWID;
CREATE TABLE approvals (
  id TEXT PRIMARY KEY, session INTEGER NOT NULL, run_id TEXT NOT NULL, call_id TEXT NOT NULL, digest TEXT NOT NULL,
  expires_at INTEGER NOT NULL, state TEXT NOT NULL DEFAULT 'pending', decided_by TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX approvals_of_session ON approvals (session);
CREATE TABLE inbox (
  item INTEGER PRIMARY KEY AUTOINCREMENT, session INTEGER NOT NULL, key TEXT NOT NULL, kind TEXT NOT NULL,
  body BLOB NOT NULL, taken INTEGER NOT NULL DEFAULT 0, UNIQUE (session, key)
) STRICT;
CREATE INDEX inbox_waiting ON inbox (session, item) WHERE taken = 0;
CREATE TABLE tokens (
  hash TEXT PRIMARY KEY, session INTEGER NOT NULL, role TEXT NOT NULL, expires_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX tokens_of_session ON tokens (session);
CREATE TABLE blob_refs (
  blob TEXT NOT NULL, session INTEGER NOT NULL, PRIMARY KEY (blob, session)
) STRICT, WITHOUT ROWID;
CREATE INDEX blob_refs_of_session ON blob_refs (session);
"""

# Decisions over all sessions, without reading their logs. The types are those of `contract.DECISIONS`.
_SECOND = """
CREATE INDEX decisions ON events (ts, session, seq)
  WHERE type IN ('approval_received', 'approval_expired', 'approval_policy_changed');
"""

# The same index with `OR`: for `IN`, SQLite builds a temporary table of the values at every insert.
_THIRD = """
DROP INDEX decisions;
CREATE INDEX decisions ON events (ts, session, seq)
  WHERE type = 'approval_received' OR type = 'approval_expired' OR type = 'approval_policy_changed';
"""

# A token is revoked with the one that minted it, and expires by the boot clock, too.
_FOURTH = """
ALTER TABLE tokens ADD COLUMN boot TEXT;
ALTER TABLE tokens ADD COLUMN boot_ms INTEGER;
ALTER TABLE tokens ADD COLUMN minted_by TEXT;
CREATE INDEX tokens_minted ON tokens (minted_by) WHERE minted_by IS NOT NULL;
"""

# What the list of sessions shows is in its row. The totals of old sessions are taken from their logs, once.
_FIFTH = """
ALTER TABLE sessions ADD COLUMN archived INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN facts TEXT;
CREATE TEMP TABLE totals AS
  SELECT session, max(CASE WHEN type = 'usage' THEN seq END) AS last,
    sum(coalesce(payload ->> '$.inputTokens', 0) + coalesce(payload ->> '$.outputTokens', 0)) AS tokens,
    sum(payload ->> '$.costUsd') AS cost
  FROM events WHERE type = 'usage' OR type = 'session_compacted' GROUP BY session;
UPDATE sessions SET facts = (
  SELECT json_object('tokens', tokens, 'cost_usd', cost, 'context', json((
    SELECT payload -> '$.context' FROM events WHERE session = totals.session AND seq = totals.last
  ))) FROM totals WHERE session = sessions.key
);
DROP TABLE totals;
UPDATE sessions SET title = title_of(coalesce((
  SELECT payload ->> '$.text' FROM events WHERE session = sessions.key AND type = 'user_message' ORDER BY seq LIMIT 1
), '')) WHERE title IS NULL;
UPDATE sessions SET title = NULL WHERE title = '';
"""

# Tokens that can be used once, and what they were exchanged for.
_SIXTH = """
ALTER TABLE tokens ADD COLUMN kind TEXT NOT NULL DEFAULT 'token';
"""

# Users of one daemon, and what the sessions that they deleted have cost.
_SEVENTH = """
ALTER TABLE sessions ADD COLUMN user TEXT;
CREATE INDEX sessions_of_user ON sessions (user) WHERE user IS NOT NULL;
CREATE TABLE spent (
  user TEXT NOT NULL, day INTEGER NOT NULL, cost_usd REAL NOT NULL, PRIMARY KEY (user, day)
) STRICT, WITHOUT ROWID;
"""

# Lists of sessions read what they show. The hour, because an index on `updated_at` would cost every append a page.
_EIGHTH = """
ALTER TABLE sessions ADD COLUMN used_hour INTEGER NOT NULL DEFAULT 0;
UPDATE sessions SET used_hour = updated_at / 3600000;
CREATE INDEX sessions_by_use ON sessions (used_hour);
CREATE INDEX sessions_of_folder ON sessions (root_path, used_hour);
DROP INDEX sessions_of_user;
CREATE INDEX sessions_of_user ON sessions (user, used_hour) WHERE user IS NOT NULL;
"""

# The last event that names a blob. What was named before is kept with its session, as nothing tells which event it was.
UNKNOWN_SEQ = 2**63 - 1
_NINTH = f"""
ALTER TABLE blob_refs ADD COLUMN seq INTEGER NOT NULL DEFAULT {UNKNOWN_SEQ};
"""

# The script at index N migrates a database from version N to N + 1. Never change a released one.
MIGRATIONS = (_FIRST, _SECOND, _THIRD, _FOURTH, _FIFTH, _SIXTH, _SEVENTH, _EIGHTH, _NINTH)


def open_database(path: Path, busy_seconds: float = BUSY_SECONDS, use: StateUse | None = None) -> Database:
    """Open the one connection that writes, after creating or migrating the database.

    It is migrated only while no other process has `use` of it: that one may be older.
    """
    try:
        if not os.path.lexists(path):
            _check_no_wal(path)
            _create(path)
        _check_file(path)
        db = _connect(path, busy_seconds)
        try:
            _check_identity(db, path)
            if _is_older(db):
                with nullcontext() if use is None else use.alone(partial(_is_older, db)):
                    _migrate(db)
        except BaseException:
            db.close()
            raise
    except apsw.Error as error:
        raise explain(error, path) from error
    return db


def needs_migration(path: Path) -> bool:
    """Whether the database exists and is one of an older Buddy; UserError if it cannot be read."""
    if not path.exists():
        return False
    db = open_reader(path)
    try:
        return _is_older(db)
    finally:
        db.close()


def open_reader(path: Path, busy_seconds: float = BUSY_SECONDS) -> Database:
    """Open a connection that cannot write, to a database that exists; an older schema is not migrated."""
    try:
        _check_file(path)
        db = connect_reader(path, busy_seconds)
        try:
            _configure(db, busy_seconds)
            db.execute("PRAGMA wal_autocheckpoint = 0")
            _check_identity(db, path)
            db.execute("PRAGMA query_only = 1")
        except BaseException:
            db.close()
            raise
    except apsw.Error as error:
        raise explain(error, path) from error
    return db


def is_disk_full(directory: Path) -> bool:
    """Whether nothing more can be written: SQLite reports that of its shared memory as a failed read or write."""
    try:
        found = os.statvfs(directory)
    except OSError:
        return False
    return found.f_bavail == 0 or (found.f_files > 0 and found.f_favail == 0)


def explain(error: apsw.Error, path: Path) -> Exception:
    """Turn a database error into one that says what the user can do, if there is something."""
    match error:
        case apsw.BusyError() | apsw.LockedError():
            return UserError(
                f"{path} is locked by another program",
                hint=f"find it with `fuser {path}`, end it, and try again",
                exit_code=75,
            )
        case apsw.FullError():
            return UserError(f"the disk of {path.parent} is full", hint="free some space and try again", exit_code=75)
        case apsw.IOError() if is_disk_full(path.parent):
            return UserError(f"the disk of {path.parent} is full", hint="free some space and try again", exit_code=75)
        case apsw.IOError():
            return UserError(f"{path} cannot be read or written ({error})", hint="check the disk", exit_code=75)
        case apsw.NotADBError() | apsw.CorruptError():
            return UserError(f"{path} is damaged or not a database ({error})", hint=_MOVE_AWAY)
        case apsw.ReadOnlyError() | apsw.CantOpenError() | apsw.PermissionsError():
            return UserError(f"{path} cannot be opened for writing ({error})", hint="check its owner and mode")
        case _:
            return error


_MOVE_AWAY = "restore it from a backup, or move it elsewhere to start with an empty log; nothing was changed"


def _connect(path: Path, busy_seconds: float) -> Database:
    db = connect(path, apsw.SQLITE_OPEN_READWRITE)
    _configure(db, busy_seconds)
    # Pages that a deleted session leaves behind are overwritten: what was deleted cannot be read from the file.
    db.execute("PRAGMA secure_delete = 1")
    db.execute(f"PRAGMA journal_size_limit = {64 * 1024 * 1024}")
    return db


def _configure(db: Database, busy_seconds: float) -> None:
    add_functions(db)
    db.set_busy_timeout(int(busy_seconds * 1000))
    db.execute("PRAGMA mmap_size = 0")
    db.execute("PRAGMA cache_size = -512")  # KiB: what is appended is not read again, and each connection has its own


def add_functions(db: Database) -> None:
    """What statements call: titles for a migration, and a search that ignores the case of all letters."""
    db.create_scalar_function("title_of", title_of, 1, deterministic=True)
    db.create_scalar_function("searched_text", searched_text, 4, deterministic=True)


def _create(path: Path) -> None:
    """Build a database under another name and link it into place; of two processes, the second uses the first's."""
    building = path.with_name(f"{path.name}.new-{os.urandom(8).hex()}")
    os.close(os.open(building, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    try:
        # SQLite gives its -wal and -shm files the mode of the database, whatever the umask.
        building.chmod(0o600)
        db = connect(building, apsw.SQLITE_OPEN_READWRITE)
        add_functions(db)
        db.execute(f"PRAGMA page_size = {PAGE}")
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        _migrate(db)
        db.execute("PRAGMA journal_mode = WAL")
        db.close()
        with suppress(FileExistsError):
            path.hardlink_to(building)
    finally:
        building.unlink()


def _check_no_wal(path: Path) -> None:
    # SQLite would take the pages of the missing database into the new one. Another process that creates it now has
    # created the database before its WAL.
    wal = path.with_name(f"{path.name}-wal")
    if os.path.lexists(wal) and not os.path.lexists(path):
        raise UserError(
            f"{path} is missing, but {wal}, which belongs to it, is there",
            hint=f"put {path.name} back, or move {wal.name} elsewhere to start with an empty log",
        )


def _check_file(path: Path) -> None:
    # lstat, never open and close: closing a file drops this process's locks on it.
    found = path.lstat()
    if not stat.S_ISREG(found.st_mode):
        raise UserError(f"{path} is not a regular file", hint="move it, or choose another --state-dir")
    if found.st_uid != os.geteuid():
        raise UserError(f"{path} belongs to user {found.st_uid}, not to you", hint="choose another --state-dir")
    if found.st_mode & 0o022:
        raise UserError(f"{path} is writable by others", hint=f"chmod 600 {path}")
    if found.st_size == 0:
        raise UserError(f"{path} is empty, so it is not a Buddy log", hint=_MOVE_AWAY)


def _check_identity(db: Database, path: Path) -> None:
    if db.pragma("application_id") != APPLICATION_ID:
        raise UserError(f"{path} is a database of another program", hint="move it, or choose another --state-dir")
    # The version is in the file's first bytes; the list of tables shows whether the rest of the first page is intact.
    db.execute("SELECT count(*) FROM sqlite_schema WHERE type = 'table'")
    version = db.pragma("user_version")
    if version > len(MIGRATIONS):
        raise UserError(
            f"{path} was written by a newer Buddy (schema {version}, this one knows {len(MIGRATIONS)})",
            hint="upgrade Buddy, or choose another --state-dir",
        )


def _is_older(db: Database) -> bool:
    return db.pragma("user_version") < len(MIGRATIONS)


def _migrate(db: Database) -> None:
    while _is_older(db):
        db.execute("BEGIN IMMEDIATE")
        try:
            # Read again inside the transaction: another process may have migrated meanwhile.
            version: int = db.pragma("user_version")
            if version < len(MIGRATIONS):
                db.execute(MIGRATIONS[version])
                db.execute(f"PRAGMA user_version = {version + 1}")
            db.execute("COMMIT")
        except BaseException:
            db.execute("ROLLBACK")
            raise
