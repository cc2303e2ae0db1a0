"""The file of the index: its tables, and how it is opened.

Invariants: the file is a cache of the log with mode 0600, so one that is damaged or not ours is deleted and rebuilt;
only texts that were forgotten on request come back that way, so the file of a newer version is left alone.
"""

import logging
import os
import stat
from pathlib import Path

import apsw

from buddy.errors import UserError
from buddy.log.database import Database, connect

FILE = "memory.db"
VERSION = 1
APPLICATION_ID = 0x42754D65
BUSY_MS = 5000
WAL_PAGES = 100

_TABLES = """
CREATE TABLE sessions (
  session TEXT PRIMARY KEY, project TEXT NOT NULL, seq INTEGER NOT NULL DEFAULT 0, compacted INTEGER NOT NULL DEFAULT 0,
  forgotten INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
CREATE TABLE chunks (
  id INTEGER PRIMARY KEY AUTOINCREMENT, project TEXT NOT NULL, session TEXT NOT NULL, seq INTEGER NOT NULL,
  ts INTEGER NOT NULL, role TEXT NOT NULL, hash BLOB NOT NULL, text TEXT NOT NULL, UNIQUE (project, hash)
) STRICT;
CREATE INDEX chunks_of_session ON chunks (session);
CREATE VIRTUAL TABLE words USING fts5(text, content='chunks', content_rowid='id', tokenize='porter unicode61');
CREATE VIRTUAL TABLE vocabulary USING fts5vocab(words, row);
INSERT INTO words (words, rank) VALUES ('secure-delete', 1);
CREATE TABLE vectors (
  number INTEGER PRIMARY KEY AUTOINCREMENT, chunk INTEGER NOT NULL UNIQUE, vector BLOB NOT NULL
) STRICT;
CREATE TABLE unembedded (chunk INTEGER PRIMARY KEY) STRICT;
CREATE TABLE forgotten (project TEXT NOT NULL, hash BLOB NOT NULL, PRIMARY KEY (project, hash)) STRICT, WITHOUT ROWID;
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
"""
# Older files do not have it, and work without it.
_INDEX = "CREATE INDEX IF NOT EXISTS chunks_of_project ON chunks (project)"

log = logging.getLogger("buddy.memory")


def open_index(path: Path) -> Database:
    """Open the index for writing; create it if there is none that can be used. UserError if it is a newer version's."""
    _make_file(path)
    try:
        return _open(path)
    except (apsw.NotADBError, apsw.CorruptError, _NotOurs) as error:
        log.warning("%s is rebuilt, with texts that were forgotten: %s", path, error)
        for name in (path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")):
            name.unlink(missing_ok=True)
        _make_file(path)
        return _open(path)


def open_index_reader(path: Path) -> Database:
    db = connect(path, apsw.SQLITE_OPEN_READONLY)
    db.set_busy_timeout(BUSY_MS)
    db.execute("PRAGMA query_only = 1")
    return db


def check_version(db: Database, path: Path) -> None:
    """UserError if a newer version wrote the file."""
    if db.pragma("application_id") == APPLICATION_ID and db.pragma("user_version") > VERSION:
        raise UserError(
            f"{path} was written by a newer Buddy, so nothing is recalled or remembered",
            hint="upgrade Buddy; or remove the file, then it is rebuilt, with texts that were forgotten",
        )


class _NotOurs(Exception):
    """The file has tables of something else."""


def _open(path: Path) -> Database:
    db = connect(path, apsw.SQLITE_OPEN_READWRITE)
    try:
        db.set_busy_timeout(BUSY_MS)
        check_version(db, path)
        _check(db.execute("PRAGMA journal_mode = WAL").get, "wal")
        db.execute("PRAGMA synchronous = NORMAL")
        # The next process reads the complete write-ahead log before it finds anything, so it is kept short.
        db.execute(f"PRAGMA wal_autocheckpoint = {WAL_PAGES}").get  # noqa: B018 - reads the result to its end
        # Forgotten texts must not be readable from the file.
        db.execute("PRAGMA secure_delete = 1").get  # noqa: B018 - reads the result to its end
        _prepare(db)
    except BaseException:
        db.close()
        raise
    return db


def _check(found: object, wanted: object) -> None:
    if found != wanted:
        raise _NotOurs(f"{found!r}, not {wanted!r}")


def _prepare(db: Database) -> None:
    db.execute("BEGIN IMMEDIATE")
    try:
        version = db.pragma("user_version")
        if version == 0 and not db.execute("SELECT count(*) FROM sqlite_schema").get:
            db.execute(_TABLES)
            db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            db.execute(f"PRAGMA user_version = {VERSION}")
        _check((db.pragma("application_id"), db.pragma("user_version")), (APPLICATION_ID, VERSION))
        db.execute(_INDEX)
        db.execute("COMMIT")
    except BaseException:
        db.execute("ROLLBACK")
        raise


def _make_file(path: Path) -> None:
    """SQLite gives its -wal and -shm files the mode of the database, so that is set while it is empty."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
    except FileExistsError:
        found = path.lstat()
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
            raise UserError(
                f"{path} is not a file that only you can write to", hint="remove it; it is rebuilt from the log"
            ) from None
