"""Removes what is no longer needed from the checkpoint store.

Invariants: a content that a kept checkpoint or a watched workspace refers to stays; so does everything of a call or a
restore that is under way; above the total limit the oldest checkpoints go first, and packs that only we still have
count, too.
"""

import os
import time

from buddy.checkpoints import pins
from buddy.checkpoints.contract import Usage
from buddy.checkpoints.store import Store

DAY = 24 * 3600
LOW_WATER = 0.8
_UNUSED = """
SELECT id FROM contents WHERE id NOT IN (
  SELECT content FROM files UNION SELECT old_content FROM changes WHERE old_content IS NOT NULL
  UNION SELECT new_content FROM changes WHERE new_content IS NOT NULL
)
"""
_BORROWING = "SELECT id, path FROM roots WHERE id IN (SELECT root FROM files WHERE substr(content, 1, 4) = x'6769743a')"


def usage(store: Store) -> Usage:
    store.contents.load_total()
    store.contents.pinned = pins.own_size(store.folder)
    [contents] = store.db.execute("SELECT count(*) FROM contents").fetchone()
    [checkpoints] = store.db.execute("SELECT count(*) FROM checkpoints").fetchone()
    [workspaces] = store.db.execute("SELECT count(*) FROM roots").fetchone()
    kept = store.contents
    return Usage(kept.used, store.limits.max_total, kept.pinned, contents, checkpoints, workspaces)


def forget_session(store: Store, session: str) -> None:
    with store.saving():
        _drop(store, "session = ?", session)
        _sweep(store)


def prune_if_due(store: Store) -> None:
    """Once a day, for processes that run long, and for those that never do."""
    row = store.db.execute("SELECT value FROM counters WHERE name = 'pruned'").fetchone()
    if row is None or row[0] < time.time() - DAY:
        prune(store)


def prune(store: Store) -> None:
    """Remove what is too old, and then the oldest until the store is well below its limit."""
    oldest = int(time.time() - store.limits.keep_days * DAY)
    with store.saving():
        store.db.execute("INSERT OR REPLACE INTO counters VALUES ('pruned', ?)", (int(time.time()),))
        _drop(store, "state != 'open' AND created < ?", oldest)
        for checkpoint in store.windows.abandoned():
            _drop(store, f"created < {oldest} AND id = ?", checkpoint)
        for root, path in store.db.execute("SELECT id, path FROM roots WHERE used < ?", (oldest,)).fetchall():
            _forget_root(store, root, os.fsdecode(path))
        _sweep(store)
    pins.drop_unused(store.folder, oldest)
    make_room(store)
    _remove_strays(store)
    store.windows.remove_dead()


def make_room(store: Store) -> None:
    """Remove the oldest closed checkpoints, a quarter at a time, then packs that only we have, then workspaces."""
    low = store.limits.max_total * LOW_WATER
    for _ in range(12):
        store.contents.pinned = pins.own_size(store.folder)
        if store.contents.used <= low:
            return
        [count] = store.db.execute("SELECT count(*) FROM checkpoints WHERE state = 'closed'").fetchone()
        with store.saving():
            if store.contents.pinned > low / 2 and _drop_pins(store):
                continue
            if count:
                query = "id IN (SELECT id FROM checkpoints WHERE state = 'closed' ORDER BY created LIMIT ?)"
                _drop(store, query, max(1, count // 4))
            elif not _drop_pins(store) and not _forget_oldest_root(store):
                return
            _sweep(store)


def _drop_pins(store: Store) -> bool:
    if not pins.drop_oldest(store.folder):
        return False
    # What they borrow may be gone: they are looked at from the beginning.
    for root, path in store.db.execute(_BORROWING).fetchall():
        _forget_root(store, root, os.fsdecode(path))
    return True


def _forget_oldest_root(store: Store) -> bool:
    rows = store.db.execute("SELECT id, path FROM roots ORDER BY used").fetchall()
    return any(_forget_root(store, root, os.fsdecode(path)) for root, path in rows[:-1])


def _drop(store: Store, condition: str, value: str | int) -> None:
    chosen = f"SELECT id FROM checkpoints WHERE state != 'restoring' AND {condition}"  # noqa: S608 - our own conditions
    store.db.execute(f"DELETE FROM changes WHERE checkpoint IN ({chosen})", (value,))  # noqa: S608 - as above
    store.db.execute(f"DELETE FROM overlaps WHERE checkpoint IN ({chosen})", (value,))  # noqa: S608 - as above
    store.db.execute(f"DELETE FROM checkpoints WHERE id IN ({chosen})", (value,))  # noqa: S608 - as above


def _forget_root(store: Store, root: int, path: str) -> bool:
    """False if a call is under way there: what it changed is found by what is known."""
    if store.windows.of(path):
        return False
    store.db.execute("DELETE FROM files WHERE root = ?", (root,))
    store.db.execute("DELETE FROM roots WHERE id = ?", (root,))
    store.forget_workspace(path)
    return True


def _sweep(store: Store) -> None:
    store.contents.remove([row[0] for row in store.db.execute(_UNUSED).fetchall()])


def _remove_strays(store: Store) -> None:
    """Files that a killed process left."""
    for path in (store.folder / "objects").glob("*/*"):
        key = path.parent.name + path.name
        is_known = len(key) == 64 and store.contents.has(bytes.fromhex(key))
        if not is_known and time.time() - path.lstat().st_mtime > DAY:
            path.unlink(missing_ok=True)
    store.db.execute("PRAGMA incremental_vacuum")
