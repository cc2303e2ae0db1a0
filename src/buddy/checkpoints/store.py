"""The checkpoint store: which call changed which files, over all sessions and workspaces.

Invariants: everything here runs on one thread at a time; a checkpoint is `open` from before its call starts, `found`
when its changes are known, `closed` when the session's log has them, and survives the process in between; the store is
private and never leaves the state directory.
"""

import os
import sqlite3
import time
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from hashlib import sha256
from pathlib import Path

from msgspec import Struct, field

from buddy import faults
from buddy.checkpoints.contents import Contents
from buddy.checkpoints.database import open_database
from buddy.checkpoints.entries import Change, is_same
from buddy.checkpoints.limits import CheckpointLimits
from buddy.checkpoints.reach import Reach, begin_detail, joined, read_begin_detail
from buddy.checkpoints.rows import add_changes, load_changes, load_files, root_id, save_files
from buddy.checkpoints.seeding import Seed
from buddy.checkpoints.workspace import Workspace

MAX_WORKSPACES = 4
"""How many are kept in memory; the others are read from the store when they are needed."""


class CallKey(Struct, frozen=True):
    """A call of a run; with an empty call, the run as a whole."""

    session: str
    run: str
    call: str = ""

    @property
    def checkpoint(self) -> str:
        return "cp_" + sha256(f"{self.session}/{self.run}/{self.call}".encode()).hexdigest()[:26]


class Scope(Struct, frozen=True):
    """What a checkpoint watches: a workspace, or only some paths in it, relative to it."""

    root: str
    paths: tuple[str, ...] | None = None
    private: tuple[str, ...] = ()
    is_closed: Callable[[str], bool] = lambda _: False


class Coverage(Struct, frozen=True):
    """What a checkpoint leaves out."""

    skipped: Mapping[str, str] = {}
    unknown: int = 0
    pending: int = 0
    is_partial: bool = False
    is_off: str = ""


class Ended(Struct, frozen=True):
    """What a call changed; `overlaps` are other sessions that worked in the same place meanwhile."""

    checkpoint: str
    changes: tuple[Change, ...]
    coverage: Coverage
    overlaps: tuple[str, ...] = ()
    is_recovered: bool = False


class _Window(Struct):
    key: CallKey
    scope: Scope
    reach: Reach = Reach()
    overlaps: set[str] = field(default_factory=set[str])


class Store:
    def __init__(self, folder: Path, limits: CheckpointLimits) -> None:
        self.folder = folder
        self.limits = limits
        self.db = open_database(folder)
        self.contents = Contents(self.db, folder, limits)
        self._workspaces: dict[str, Workspace] = {}
        self._windows: dict[str, _Window] = {}

    def close(self) -> None:
        self.db.close()

    # --- calls ----------------------------------------------------------------------------------------------------

    def begin(self, key: CallKey, scope: Scope) -> Coverage:
        """Look at the workspace before a call; changes since the last time are not the call's."""
        if scope.paths is None and (why := unsuitable(scope.root)):
            return Coverage(is_off=why)
        with self.saving():
            workspace = self._look(scope)
            detail = begin_detail(scope.paths, workspace.reach)
            row = (key.checkpoint, os.fsencode(scope.root), key.session, key.run, key.call, _now(), detail)
            self.db.execute("INSERT OR REPLACE INTO checkpoints VALUES (?, ?, ?, ?, ?, 'open', ?, ?)", row)
            self.db.execute("DELETE FROM changes WHERE checkpoint = ?", (key.checkpoint,))
        self._open_window(key, scope, workspace.reach)
        faults.reached("checkpoint.begun")
        return self.coverage(scope.root)

    def look(self, scope: Scope) -> Coverage:
        """Look at the workspace for a call that may come, and say what would not be covered."""
        if why := unsuitable(scope.root):
            return Coverage(is_off=why)
        with self.saving():
            self._look(scope)
        return self.coverage(scope.root)

    def _look(self, scope: Scope) -> Workspace:
        workspace = self.workspace(scope.root, scope)
        if scope.paths is None:
            changes = workspace.sync(self.limits.seconds)
        else:
            changes = workspace.covered(workspace.look_at(scope.paths))
        self._attribute(changes, scope.root)
        self._save(workspace)
        return workspace

    def end(self, key: CallKey, scope: Scope) -> Ended | None:
        """What the call changed; None if it was not begun. `scope` serves if another process began it."""
        window, is_recovered = self._windows.get(key.checkpoint), False
        if window is None:
            window, is_recovered = self._find_open(key, scope), True
        if window is None:
            return self._find_ended(key, scope.root)
        faults.reached("checkpoint.ending")
        try:
            with self.saving():
                ended = self._end(window, is_recovered)
        finally:
            self._windows.pop(key.checkpoint, None)
        faults.reached("checkpoint.ended")
        return ended

    def split(self, key: CallKey, following: CallKey, scope: Scope) -> Ended | None:
        """End a call's checkpoint and begin the next one without looking twice."""
        window = self._windows.get(key.checkpoint)
        if window is None:
            return None
        with self.saving():
            ended = self._end(window, is_recovered=False)
            reach = self.workspace(scope.root).reach
            detail = begin_detail(None, reach)
            row = (following.checkpoint, os.fsencode(scope.root), key.session, key.run, following.call, _now(), detail)
            self.db.execute("INSERT OR REPLACE INTO checkpoints VALUES (?, ?, ?, ?, ?, 'open', ?, ?)", row)
        self._windows.pop(key.checkpoint, None)
        self._open_window(following, window.scope, reach)
        return ended

    def fill(self, root: str, seconds: float) -> bool:
        """Store contents that a checkpoint had no time for; False when none is left."""
        workspace = self._workspaces.get(root)
        if workspace is None or not workspace.pending:
            return False
        with self.saving():
            is_more = workspace.fill(seconds)
            self._save(workspace)
        return is_more

    def coverage(self, root: str) -> Coverage:
        workspace = self._workspaces.get(root)
        if workspace is None:
            return Coverage(is_off=unsuitable(root))
        found = workspace.uncovered
        return Coverage(dict(found.skipped), len(found.unknown), len(workspace.pending), found.is_partial)

    # --- what was recorded ----------------------------------------------------------------------------------------

    def changes(self, checkpoints: Iterable[str]) -> dict[str, list[Change]]:
        """The changes of each checkpoint that is still kept."""
        found: dict[str, list[Change]] = {}
        for one in checkpoints:
            if self.db.execute("SELECT 1 FROM checkpoints WHERE id = ?", (one,)).fetchone():
                found[one] = load_changes(self.db, one)
        return found

    def workspace(self, root: str, scope: Scope | None = None) -> Workspace:
        known = self._workspaces.pop(root, None)
        if known is None:
            files = load_files(self.db, root_id(self.db, root))
            make_seed = partial(Seed, root, self.folder / "pins")
            known = Workspace(root, files, self.contents, make_seed, self.limits)
        if known.reach is None:
            opened = (window for window in self._windows.values() if window.scope.root == root)
            known.reach = joined(window.reach for window in opened if window.scope.paths is None)
        self._workspaces[root] = known  # the last one is the latest used
        if scope is not None:
            known.use(scope.private, scope.is_closed)
        for old in list(self._workspaces)[:-MAX_WORKSPACES]:
            if not any(window.scope.root == old for window in self._windows.values()):
                del self._workspaces[old]
        return known

    def forget_workspace(self, root: str) -> None:
        if not any(window.scope.root == root for window in self._windows.values()):
            self._workspaces.pop(root, None)

    @contextmanager
    def transaction(self, root: str) -> Generator[Workspace]:
        """A workspace whose changes are saved together."""
        with self.saving():
            workspace = self.workspace(root)
            yield workspace
            self._attribute(workspace.noticed, root)
            workspace.noticed.clear()
            self._save(workspace)

    # --- inside ---------------------------------------------------------------------------------------------------

    def _end(self, window: _Window, is_recovered: bool) -> Ended:
        key, scope = window.key, window.scope
        workspace = self.workspace(scope.root, scope)
        if scope.paths is None:
            self._attribute(workspace.sync(), scope.root)
        else:
            add_changes(self.db, key.checkpoint, workspace.look_at(scope.paths))
        self._save(workspace)
        changes = [
            change for change in load_changes(self.db, key.checkpoint) if not is_same(change.before, change.after)
        ]
        self.db.execute("DELETE FROM changes WHERE checkpoint = ?", (key.checkpoint,))
        if changes:
            add_changes(self.db, key.checkpoint, changes)
            self.db.execute("UPDATE checkpoints SET state = 'found' WHERE id = ?", (key.checkpoint,))
        else:
            self.db.execute("DELETE FROM checkpoints WHERE id = ?", (key.checkpoint,))
        overlaps = tuple(sorted(window.overlaps)) if scope.paths is None else ()
        return Ended(key.checkpoint, tuple(changes), self.coverage(scope.root), overlaps, is_recovered)

    def _attribute(self, changes: list[Change], root: str) -> None:
        """Add changes to the checkpoints that are open for the entire workspace."""
        for one, window in self._windows.items():
            if window.scope.root == root and window.scope.paths is None:
                add_changes(self.db, one, changes)

    def _open_window(self, key: CallKey, scope: Scope, reach: Reach | None) -> None:
        opened = _Window(key, scope, reach or Reach())
        for other in self._windows.values():
            if other.scope.root == scope.root and other.key.session != key.session:
                other.overlaps.add(key.session)
                opened.overlaps.add(other.key.session)
        self._windows[key.checkpoint] = opened

    def _find_open(self, key: CallKey, scope: Scope) -> _Window | None:
        """A checkpoint that an earlier process began."""
        query = "SELECT root, detail FROM checkpoints WHERE id = ? AND state = 'open'"
        row = self.db.execute(query, (key.checkpoint,)).fetchone()
        if row is None or os.fsdecode(row[0]) != scope.root:
            return None
        paths, reach = read_begin_detail(row[1])
        window = _Window(key, Scope(scope.root, paths, scope.private, scope.is_closed), reach)
        self._windows[key.checkpoint] = window
        return window

    def _find_ended(self, key: CallKey, root: str) -> Ended | None:
        """What an earlier process found and did not record in the session's log."""
        query = "SELECT 1 FROM checkpoints WHERE id = ? AND state = 'found'"
        if self.db.execute(query, (key.checkpoint,)).fetchone() is None:
            return None
        changes = tuple(load_changes(self.db, key.checkpoint))
        return Ended(key.checkpoint, changes, self.coverage(root), is_recovered=True)

    def _save(self, workspace: Workspace) -> None:
        root = root_id(self.db, workspace.root)
        save_files(self.db, root, workspace.dirty)
        workspace.dirty.clear()

    @contextmanager
    def saving(self) -> Generator[None]:
        """Everything inside is committed together, or not at all."""
        self.db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self.db.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                self.db.execute("ROLLBACK")
            self._workspaces.clear()  # what is in memory was not saved
            self.contents.count()
            raise


def unsuitable(root: str) -> str:
    """Why a folder as a whole is not watched; empty if it is."""
    home = os.path.realpath(os.path.expanduser("~"))  # noqa: PTH111 - plain text
    if root == "/" or f"{home}/".startswith(f"{root}/"):
        return "the workspace is a home directory, or contains one"
    return ""


def _now() -> int:
    return int(time.time())
