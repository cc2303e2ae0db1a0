"""Removes what is no longer needed from the checkpoint store.

Invariants: a content that a kept checkpoint or a watched workspace refers to stays; so does everything of a call or a
restore that is under way; above the total limit the oldest checkpoints go first.
"""

import os
import shutil
import time

from msgspec import Struct

from buddy.checkpoints.store import Store

DAY = 24 * 3600
LOW_WATER = 0.8
_UNUSED = """
SELECT id FROM contents WHERE id NOT IN (
  SELECT content FROM files UNION SELECT old_content FROM changes WHERE old_content IS NOT NULL
  UNION SELECT new_content FROM changes WHERE new_content IS NOT NULL
)
"""


class Usage(Struct, frozen=True):
    """What the store holds; sizes are in bytes."""

    size: int
    contents: int
    checkpoints: int
    workspaces: int


def usage(store: Store) -> Usage:
    [contents] = store.db.execute("SELECT count(*) FROM contents").fetchone()
    [checkpoints] = store.db.execute("SELECT count(*) FROM checkpoints").fetchone()
    [workspaces] = store.db.execute("SELECT count(*) FROM roots").fetchone()
    return Usage(store.contents.total, contents, checkpoints, workspaces)


def forget_session(store: Store, session: str) -> None:
    with store.saving():
        _drop(store, "session = ?", session)
        _sweep(store)


def prune(store: Store) -> None:
    """Remove what is too old, and then the oldest until the store is well below its limit."""
    oldest = int(time.time() - store.limits.keep_days * DAY)
    with store.saving():
        _drop(store, "created < ?", oldest)
        for root, path in store.db.execute("SELECT id, path FROM roots WHERE used < ?", (oldest,)).fetchall():
            _forget_root(store, root, os.fsdecode(path))
        _sweep(store)
    if store.contents.total > store.limits.max_total * LOW_WATER:
        make_room(store)
    _remove_strays(store)


def make_room(store: Store) -> None:
    """Remove the oldest closed checkpoints, a quarter at a time, and workspaces that were not used for longest."""
    for _ in range(8):
        if store.contents.total <= store.limits.max_total * LOW_WATER:
            return
        [count] = store.db.execute("SELECT count(*) FROM checkpoints WHERE state = 'closed'").fetchone()
        with store.saving():
            if count:
                query = "id IN (SELECT id FROM checkpoints WHERE state = 'closed' ORDER BY created LIMIT ?)"
                _drop(store, query, max(1, count // 4))
            elif not _forget_oldest_root(store):
                return
            _sweep(store)


def _forget_oldest_root(store: Store) -> bool:
    rows = store.db.execute("SELECT id, path FROM roots ORDER BY used").fetchall()
    if len(rows) < 2:
        return False
    _forget_root(store, rows[0][0], os.fsdecode(rows[0][1]))
    return True


def _drop(store: Store, condition: str, value: str | int) -> None:
    chosen = f"SELECT id FROM checkpoints WHERE state != 'restoring' AND {condition}"  # noqa: S608 - our own conditions
    store.db.execute(f"DELETE FROM changes WHERE checkpoint IN ({chosen})", (value,))  # noqa: S608 - as above
    store.db.execute(f"DELETE FROM checkpoints WHERE id IN ({chosen})", (value,))  # noqa: S608 - as above


def _forget_root(store: Store, root: int, path: str) -> None:
    store.db.execute("DELETE FROM files WHERE root = ?", (root,))
    store.db.execute("DELETE FROM roots WHERE id = ?", (root,))
    store.forget_workspace(path)


def _sweep(store: Store) -> None:
    store.contents.remove([row[0] for row in store.db.execute(_UNUSED).fetchall()])


def _remove_strays(store: Store) -> None:
    """Files that a killed process left, and links to packs of repositories that no workspace is in any more."""
    for path in (store.folder / "objects").glob("*/*"):
        key = path.parent.name + path.name
        is_known = len(key) == 64 and store.contents.has(bytes.fromhex(key))
        if not is_known and time.time() - path.lstat().st_mtime > DAY:
            path.unlink(missing_ok=True)
    oldest = time.time() - store.limits.keep_days * DAY
    for pins in (store.folder / "pins").glob("*"):
        if pins.lstat().st_mtime < oldest:  # each use of a repository renews it
            shutil.rmtree(pins, ignore_errors=True)
    store.db.execute("PRAGMA incremental_vacuum")
