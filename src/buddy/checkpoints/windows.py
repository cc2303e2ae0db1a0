"""The checkpoints that are open, of all processes that use the store: whose is a change that somebody finds?

Invariants: a change belongs to the calls that were under way when it was found, in whichever process; what a tool
wrote by name belongs to its session and to those that wait for it, and to no other; a call whose process died gets
what the next look finds, and no more; sessions that worked in one place at the same time know of each other.
"""

import os
import sqlite3
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import Struct

from buddy.checkpoints.contract import CallKey
from buddy.checkpoints.database import tick
from buddy.checkpoints.entries import Change, is_same
from buddy.checkpoints.holders import Holder
from buddy.checkpoints.reach import Reach, begin_detail, joined, read_begin_detail
from buddy.checkpoints.rows import add_changes, load_changes, update_changes

_OPEN = "SELECT id, root, session, parent, detail, holder FROM checkpoints WHERE state = 'open'"
_BEGIN = """
INSERT INTO checkpoints (id, root, session, run, call, state, created, detail, parent, holder, began)
VALUES (?, ?, ?, ?, ?, 'open', ?, ?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET state = 'open', holder = excluded.holder
"""
_ADOPT = """
UPDATE checkpoints SET state = 'open', ended = 0, holder = ? WHERE id = ? AND state IN ('open', 'found')
"""


class Window(Struct, frozen=True):
    """An open checkpoint. Without `paths`, it watches the entire workspace."""

    checkpoint: str
    root: str
    session: str
    parent: str
    paths: tuple[str, ...] | None
    reach: Reach
    holder: str

    def watches(self, path: str) -> bool:
        return self.paths is None or path in self.paths


class Windows:
    def __init__(self, db: sqlite3.Connection, folder: Path) -> None:
        self._db = db
        self._holder = Holder(folder)
        self._own: set[str] = set()
        """Those that this process has open; others of its own were abandoned."""
        self._adopted: set[str] = set()

    def close(self) -> None:
        self._holder.close()

    def is_own(self, key: CallKey) -> bool:
        """Whether this process began it."""
        return key.checkpoint in self._own and key.checkpoint not in self._adopted

    def all(self) -> list[Window]:
        return [_window(row) for row in self._db.execute(_OPEN).fetchall()]

    def of(self, root: str) -> list[Window]:
        return [_window(row) for row in self._db.execute(f"{_OPEN} AND root = ?", (os.fsencode(root),)).fetchall()]

    def find(self, key: CallKey, root: str) -> Window | None:
        """An open checkpoint, also one that another process began."""
        return next((one for one in self.of(root) if one.checkpoint == key.checkpoint), None)

    def reach(self, root: str) -> Reach | None:
        """How far all open checkpoints of a workspace reach."""
        return joined(one.reach for one in self.of(root) if one.paths is None)

    def is_watched(self, root: str) -> bool:
        return any(one.paths is None for one in self.of(root))

    def begin(self, key: CallKey, root: str, parent: str, paths: Sequence[str] | None, reach: Reach | None) -> None:
        """Open a checkpoint. If the same call began before, it goes on: what it changed then is kept."""
        opened = Window(
            key.checkpoint,
            root,
            key.session,
            parent,
            None if paths is None else tuple(paths),
            reach or Reach(),
            self._holder.name,
        )
        self._note_overlaps(opened)
        place = (key.checkpoint, os.fsencode(root), key.session, key.run, key.call, int(time.time()))
        row = (*place, begin_detail(paths, reach), parent, self._holder.name, tick(self._db))
        self._db.execute(_BEGIN, row)

    def add(self, key: CallKey) -> None:
        """It is committed, and this process will end it."""
        self._own.add(key.checkpoint)

    def adopt(self, key: CallKey) -> None:
        """A call that a dead process began goes on: what it changes from now on is looked for, too."""
        query = (
            "UPDATE checkpoints SET state = 'open', ended = 0, holder = ? WHERE id = ? AND state IN ('open', 'found')"
        )
        self._db.execute(query, (self._holder.name, key.checkpoint))
        self._own.add(key.checkpoint)
        self._adopted.add(key.checkpoint)

    def discard(self, key: CallKey) -> None:
        self._own.discard(key.checkpoint)
        self._adopted.discard(key.checkpoint)

    def attribute(self, changes: Sequence[Change], root: str, by: Window | None = None) -> None:
        """Add changes to the open checkpoints that watch their paths. `by` is a tool that wrote these paths by name."""
        if not changes:
            return
        opened = self.of(root)
        for one in opened if by is None else _family(by, opened):
            add_changes(self._db, one.checkpoint, [change for change in changes if one.watches(change.path)])

    def update(self, changes: Sequence[Change], root: str) -> None:
        """Contents of changed files that were found later."""
        for one in self.of(root) if changes else ():
            update_changes(self._db, one.checkpoint, changes)

    def end(self, window: Window) -> tuple[list[Change], tuple[str, ...]]:
        """What a checkpoint changed, and which sessions worked in the same place; nothing is kept if it is nothing."""
        one = window.checkpoint
        changes = [change for change in load_changes(self._db, one) if not is_same(change.before, change.after)]
        self._db.execute("DELETE FROM changes WHERE checkpoint = ?", (one,))
        if changes:
            add_changes(self._db, one, changes)
            state = "UPDATE checkpoints SET state = 'found', ended = ? WHERE id = ?"
            self._db.execute(state, (tick(self._db), one))
        else:
            self._db.execute("DELETE FROM checkpoints WHERE id = ?", (one,))
        query = "DELETE FROM overlaps WHERE checkpoint = ? RETURNING session"
        overlaps = [row[0] for row in self._db.execute(query, (one,)).fetchall()]
        return changes, tuple(sorted(overlaps)) if window.paths is None else ()

    def dead(self, root: str) -> list[Window]:
        """Checkpoints that a process left open when it ended."""
        return [one for one in self.of(root) if not self._is_alive(one)]

    def abandoned(self) -> list[str]:
        """The same in all workspaces."""
        return [one.checkpoint for one in self.all() if not self._is_alive(one)]

    def remove_dead(self) -> None:
        self._holder.remove_dead()

    def _is_alive(self, one: Window) -> bool:
        if one.holder == self._holder.name:
            return one.checkpoint in self._own
        return self._holder.is_alive(one.holder)

    def _note_overlaps(self, opened: Window) -> None:
        others = [one for one in self.all() if one.session != opened.session]
        for one in others:
            is_related = _is_above(one, opened, others) or _is_above(opened, one, [*others, opened])
            if _is_within(one.root, opened.root) and not is_related and self._is_alive(one):
                pairs = ((one.checkpoint, opened.session), (opened.checkpoint, one.session))
                self._db.executemany("INSERT OR IGNORE INTO overlaps VALUES (?, ?)", pairs)


def _window(row: tuple[str, bytes, str, str, str, str]) -> Window:
    checkpoint, root, session, parent, detail, holder = row
    paths, reach = read_begin_detail(detail)
    return Window(checkpoint, os.fsdecode(root), session, parent, paths, reach, holder)


def _is_within(one: str, other: str) -> bool:
    """Whether two workspaces are the same, or one contains the other."""
    return f"{one}/".startswith(f"{other}/") or f"{other}/".startswith(f"{one}/")


def _is_above(above: Window, below: Window, opened: Iterable[Window]) -> bool:
    """Whether a session waits for another one, which it started, or for one that that one started."""
    parents = {one.session: one.parent for one in opened}
    session, seen = below.parent, set[str]()
    while session and session not in seen:
        if session == above.session:
            return True
        seen.add(session)
        session = parents.get(session, "")
    return False


def _family(by: Window, opened: Sequence[Window]) -> list[Window]:
    """The checkpoints of a session, and of those that wait for it."""
    return [one for one in opened if one.session == by.session or _is_above(one, by, opened)]
