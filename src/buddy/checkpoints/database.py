"""The file of the checkpoint store: its tables, and how it is opened.

Invariants: the file has mode 0600 in a directory of mode 0700. A newer program's is left alone, one that is damaged is
put aside: what it could restore is lost, and that is reported where it matters, but no run fails because of it.
"""

import errno
import os
import sqlite3
import time
from pathlib import Path

FILE = "checkpoints.db"
VERSION = 2
BUSY_SECONDS = 60.0
"""Longer than anybody looks at a workspace while holding the lock."""
NEARLY_NOTHING = 1024 * 1024
"""With less free space, SQLite cannot extend its own files."""

_TABLES = """
CREATE TABLE contents (id BLOB PRIMARY KEY, size INTEGER NOT NULL, data BLOB) STRICT;
CREATE TABLE roots (id INTEGER PRIMARY KEY, path BLOB NOT NULL UNIQUE, used INTEGER NOT NULL) STRICT;
CREATE TABLE files (
  root INTEGER NOT NULL, path BLOB NOT NULL, kind TEXT NOT NULL, mode INTEGER NOT NULL, content BLOB NOT NULL,
  size INTEGER NOT NULL, modified INTEGER NOT NULL, changed INTEGER NOT NULL, inode INTEGER NOT NULL,
  settled INTEGER NOT NULL, PRIMARY KEY (root, path)
) STRICT, WITHOUT ROWID;
CREATE TABLE checkpoints (
  id TEXT PRIMARY KEY, root BLOB NOT NULL, session TEXT NOT NULL, run TEXT NOT NULL, call TEXT NOT NULL,
  state TEXT NOT NULL, created INTEGER NOT NULL, detail TEXT NOT NULL DEFAULT ''
) STRICT, WITHOUT ROWID;
CREATE INDEX checkpoints_of_session ON checkpoints (session);
CREATE TABLE changes (
  checkpoint TEXT NOT NULL, path BLOB NOT NULL,
  old_kind TEXT, old_mode INTEGER, old_content BLOB, old_size INTEGER,
  new_kind TEXT, new_mode INTEGER, new_content BLOB, new_size INTEGER,
  PRIMARY KEY (checkpoint, path)
) STRICT, WITHOUT ROWID;
"""
# Several processes use the store: `clock` orders what they do, `holder` is the process that has a checkpoint open,
# `version` and `looked` say when the files of a workspace were last saved and looked at.
_SECOND = """
CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT, WITHOUT ROWID;
INSERT INTO counters SELECT 'total', coalesce(sum(size), 0) FROM contents;
INSERT INTO counters VALUES ('clock', 0);
ALTER TABLE roots ADD COLUMN version INTEGER NOT NULL DEFAULT 0;
ALTER TABLE roots ADD COLUMN looked INTEGER NOT NULL DEFAULT 0;
ALTER TABLE checkpoints ADD COLUMN parent TEXT NOT NULL DEFAULT '';
ALTER TABLE checkpoints ADD COLUMN holder TEXT NOT NULL DEFAULT '';
ALTER TABLE checkpoints ADD COLUMN began INTEGER NOT NULL DEFAULT 0;
ALTER TABLE checkpoints ADD COLUMN ended INTEGER NOT NULL DEFAULT 0;
CREATE INDEX open_checkpoints ON checkpoints (root) WHERE state = 'open';
CREATE TABLE overlaps (
  checkpoint TEXT NOT NULL, session TEXT NOT NULL, PRIMARY KEY (checkpoint, session)
) STRICT, WITHOUT ROWID;
"""
_UPGRADES = (_TABLES, _SECOND)


class NewerStore(Exception):
    """The store belongs to a newer program, which may be using it now."""


def open_database(folder: Path) -> sqlite3.Connection:
    """Open the store in a private directory that exists; create it if there is none that can be used."""
    path = folder / FILE
    try:
        return _open(path)
    except sqlite3.DatabaseError as error:
        if isinstance(error, sqlite3.OperationalError):
            raise  # locked, or the disk is full
        for name in (path, path.with_name(f"{FILE}-wal"), path.with_name(f"{FILE}-shm")):
            if name.exists():
                name.rename(name.with_name(f"{name.name}.damaged.{time.time_ns()}"))
        return _open(path)


def _open(path: Path) -> sqlite3.Connection:
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
    # One thread uses it at a time; which one may change.
    db = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        db.execute("PRAGMA auto_vacuum = INCREMENTAL")
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        db.execute("BEGIN IMMEDIATE")
        [version] = db.execute("PRAGMA user_version").fetchone()
        check_version(version)
        for statements in _UPGRADES[version:]:
            for statement in statements.split(";\n"):
                db.execute(statement)
        if version < VERSION:
            db.execute(f"PRAGMA user_version = {VERSION}")
        db.execute("COMMIT")
    except BaseException:
        db.close()
        raise
    return db


def check_version(version: int) -> None:
    if version > VERSION:
        raise NewerStore(f"a newer Buddy wrote it (version {version}, this one reads {VERSION})")
    if version < 0:
        raise sqlite3.DatabaseError(f"the checkpoint store has version {version}, this program reads {VERSION}")


def tick(db: sqlite3.Connection) -> int:
    """The next number of the store's clock."""
    [now] = db.execute("UPDATE counters SET value = value + 1 WHERE name = 'clock' RETURNING value").fetchone()
    return now


def is_disk_full(error: Exception, folder: Path) -> bool:
    """Whether an operation failed for lack of space; SQLite also reports that as a failed read, write or open."""
    if isinstance(error, OSError):
        return error.errno in (errno.ENOSPC, errno.EDQUOT)
    if not isinstance(error, sqlite3.OperationalError):
        return False
    # Its text, because an error of Python's module itself has no code.
    return "disk is full" in str(error) or _is_out_of_space(folder)


def _is_out_of_space(folder: Path) -> bool:
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize < NEARLY_NOTHING
