"""Entries and changes as rows of the store."""

import os
import sqlite3
import time
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from buddy.checkpoints.entries import Change, Entry

_SAVE = "INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_ADD = """
INSERT INTO changes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (checkpoint, path) DO UPDATE SET
new_kind = excluded.new_kind, new_mode = excluded.new_mode, new_content = excluded.new_content,
new_size = excluded.new_size
"""
_UPDATE = """
UPDATE changes SET new_kind = ?, new_mode = ?, new_content = ?, new_size = ? WHERE checkpoint = ? AND path = ?
"""


class RootRow(NamedTuple):
    """A workspace in the store; `version` and `looked` are when its files were last saved and looked at."""

    number: int
    version: int
    looked: int


def root_row(db: sqlite3.Connection, root: str) -> RootRow:
    """It counts as used now."""
    query = "INSERT INTO roots (path, used) VALUES (?, ?) ON CONFLICT (path) DO UPDATE SET used = excluded.used"
    row = db.execute(f"{query} RETURNING id, version, looked", (os.fsencode(root), int(time.time()))).fetchone()
    return RootRow(*row)


def save_root(db: sqlite3.Connection, row: RootRow) -> None:
    db.execute("UPDATE roots SET version = ?, looked = ? WHERE id = ?", (row.version, row.looked, row.number))


def load_files(db: sqlite3.Connection, root: int) -> dict[str, Entry]:
    query = "SELECT path, kind, mode, content, size, modified, changed, inode, settled FROM files WHERE root = ?"
    rows: Iterable[Any] = db.execute(query, (root,))
    return {os.fsdecode(row[0]): Entry(*row[1:]) for row in rows}


def save_files(db: sqlite3.Connection, root: int, files: Mapping[str, Entry | None]) -> None:
    gone = [(root, os.fsencode(path)) for path, entry in files.items() if entry is None]
    db.executemany("DELETE FROM files WHERE root = ? AND path = ?", gone)
    db.executemany(_SAVE, (_file_row(root, path, entry) for path, entry in files.items() if entry is not None))


def add_changes(db: sqlite3.Connection, checkpoint: str, changes: Iterable[Change]) -> None:
    """Add to what a checkpoint has: the first `before` of a path stays, the last `after` counts."""
    db.executemany(_ADD, ((checkpoint, os.fsencode(path), *_half(old), *_half(new)) for path, old, new in changes))


def update_changes(db: sqlite3.Connection, checkpoint: str, changes: Iterable[Change]) -> None:
    """What the files of a checkpoint's changes are now; files that it does not have are left out."""
    rows = ((*_half(new), checkpoint, os.fsencode(path)) for path, _, new in changes)
    db.executemany(_UPDATE, rows)


def load_changes(db: sqlite3.Connection, checkpoint: str) -> list[Change]:
    query = """SELECT path, old_kind, old_mode, old_content, old_size, new_kind, new_mode, new_content, new_size
    FROM changes WHERE checkpoint = ? ORDER BY path"""
    rows: Iterable[Any] = db.execute(query, (checkpoint,))
    return [Change(os.fsdecode(row[0]), _entry(row[1:5]), _entry(row[5:9])) for row in rows]


def _file_row(root: int, path: str, entry: Entry) -> tuple[object, ...]:
    times = (entry.modified, entry.changed, entry.inode, int(entry.is_settled))
    return (root, os.fsencode(path), entry.kind, entry.mode, entry.content, entry.size, *times)


def _half(entry: Entry | None) -> tuple[object, ...]:
    return (None,) * 4 if entry is None else (entry.kind, entry.mode, entry.content, entry.size)


def _entry(values: Any) -> Entry | None:
    kind, mode, content, size = values
    return None if kind is None else Entry(kind, mode, content, size)
