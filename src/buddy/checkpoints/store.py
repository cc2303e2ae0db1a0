"""The checkpoint store: which call changed which files, over all sessions and workspaces.

Invariants: everything here runs on one thread at a time, and what several processes do in one transaction each; a
checkpoint is `open` from before its call starts, `found` when its changes are known, `closed` when the session's log
has them, and survives the process in between; the store is private and never leaves the state directory.
"""

import os
import sqlite3
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from buddy import faults
from buddy.checkpoints import pins
from buddy.checkpoints.contents import Contents
from buddy.checkpoints.contract import CallKey, Coverage, Ended, Recorded, Scope
from buddy.checkpoints.database import open_database, tick
from buddy.checkpoints.limits import CheckpointLimits
from buddy.checkpoints.rows import RootRow, load_changes, load_files, root_row, save_files, save_root
from buddy.checkpoints.seeding import Seed
from buddy.checkpoints.windows import Window, Windows
from buddy.checkpoints.workspace import Workspace

MAX_WORKSPACES = 4
"""How many are kept in memory; the others are read from the store when they are needed."""
SCAN_SECONDS = 30.0
"""How long the look after a call may take to find what changed; what it does not reach is nobody's."""


class Store:
    def __init__(self, folder: Path, limits: CheckpointLimits) -> None:
        self.folder = folder
        self.limits = limits
        self.db = open_database(folder)
        self.contents = Contents(self.db, folder, limits)
        self.windows = Windows(self.db, folder)
        self._workspaces: dict[str, Workspace] = {}

    def close(self) -> None:
        self.windows.close()
        self.db.close()

    # --- calls ----------------------------------------------------------------------------------------------------

    def begin(self, key: CallKey, scope: Scope) -> Coverage:
        """Look at the workspace before a call; changes since the last time are not the call's."""
        if scope.paths is None and (why := unsuitable(scope.root)):
            return Coverage(is_off=why)
        with self.saving():
            workspace = self._look(scope)
            self.windows.begin(key, scope.root, scope.parent, scope.paths, workspace.reach)
        self.windows.add(key)
        faults.reached("checkpoint.begun")
        return self.coverage(scope.root)

    def look(self, scope: Scope) -> Coverage:
        """Look at the workspace for a call that may come, and say what would not be covered."""
        if why := unsuitable(scope.root):
            return Coverage(is_off=why)
        with self.saving():
            self._look(scope)
        return self.coverage(scope.root)

    def _look(self, scope: Scope, by: Window | None = None) -> Workspace:
        """`by` is the checkpoint that ends with this look."""
        workspace = self.workspace(scope.root, scope)
        if scope.paths is None:
            scan = self.limits.seconds if by is None else SCAN_SECONDS
            may_borrow = by is None and not self.windows.is_watched(scope.root)
            changes = workspace.sync(scan, self.limits.seconds, may_borrow=may_borrow)
            self.windows.attribute(changes, scope.root)
        elif by is None:
            self.windows.attribute(workspace.covered(workspace.look_at(scope.paths)), scope.root)
        else:
            self.windows.attribute(workspace.look_at(scope.paths), scope.root, by)
        self._end_dead(workspace, by, is_full=scope.paths is None)
        self._save(workspace, is_looked=scope.paths is None)
        return workspace

    def end(self, key: CallKey, scope: Scope, *, may_wait: bool = False) -> Ended | list[str] | None:
        """What the call changed; None if it was not begun. `scope` serves if another process began it.

        If it may wait: the files whose contents are to be stored first.
        """
        window = self.windows.find(key, scope.root)
        if window is None:
            return self._find_ended(key, scope.root)
        is_recovered = not self.windows.is_own(key)
        if is_recovered:
            self.windows.adopt(key)
        faults.reached("checkpoint.ending")
        found: Ended | list[str] = []
        try:
            with self.saving():
                found = self._end(window, scope, may_wait=may_wait, is_recovered=is_recovered)
        finally:
            if isinstance(found, Ended) or not found:
                self.windows.discard(key)
        faults.reached("checkpoint.ended")
        return found

    def conclude(self, key: CallKey, root: str) -> Ended | None:
        """End a checkpoint whose changes were looked for already."""
        window = self.windows.find(key, root)
        if window is None:
            return self._find_ended(key, root)
        is_recovered = not self.windows.is_own(key)
        try:
            with self.saving():
                changes, overlaps = self.windows.end(window)
        finally:
            self.windows.discard(key)
        return Ended(window.checkpoint, tuple(changes), self.coverage(root), overlaps, is_recovered)

    def split(self, key: CallKey, following: CallKey, scope: Scope) -> Ended | None:
        """End a call's checkpoint and begin the next one without looking twice."""
        window = self.windows.find(key, scope.root)
        if window is None or not self.windows.is_own(key):
            return None
        with self.saving():
            ended = self._end(window, scope, may_wait=False, is_recovered=False)
            reach = self.workspace(scope.root).reach
            self.windows.begin(following, scope.root, scope.parent, None, reach)
        self.windows.discard(key)
        self.windows.add(following)
        return ended if isinstance(ended, Ended) else None

    def fill(self, root: str, seconds: float, first: Iterable[str] = ()) -> frozenset[str]:
        """Store contents that a checkpoint had no time for; returns the files that are left."""
        workspace = self._workspaces.get(root)
        if workspace is None or not workspace.pending:
            return frozenset()
        with self.saving():
            workspace = self.workspace(root)
            self.windows.update(workspace.fill(seconds, first), root)
            self._save(workspace)
        return frozenset(workspace.pending)

    def coverage(self, root: str) -> Coverage:
        workspace = self._workspaces.get(root)
        if workspace is None:
            return Coverage(is_off=unsuitable(root))
        found = workspace.uncovered
        return Coverage(dict(found.skipped), len(found.unknown), len(workspace.pending), found.is_partial)

    # --- what was recorded ----------------------------------------------------------------------------------------

    def changes(self, checkpoints: Iterable[str]) -> dict[str, Recorded]:
        """The changes of each checkpoint that is still kept."""
        found: dict[str, Recorded] = {}
        for one in checkpoints:
            span = self.db.execute("SELECT began, ended FROM checkpoints WHERE id = ?", (one,)).fetchone()
            if span is not None:
                found[one] = Recorded(load_changes(self.db, one), *span)
        return found

    def workspace(self, root: str, scope: Scope | None = None) -> Workspace:
        """What is known of a workspace; only inside a transaction, because other processes save it, too."""
        row = root_row(self.db, root)
        known = earlier = self._workspaces.pop(root, None)
        if known is None or known.row.version != row.version:
            files = load_files(self.db, row.number)
            make_seed = partial(Seed, root, self.folder / pins.FOLDER)
            known = Workspace(root, row, files, self.contents, make_seed, self.limits)
            if earlier is not None:  # another process saved more
                known.use(earlier.private, earlier.is_closed)
        if known.reach is None or known.row.looked != row.looked:
            known.reach = self.windows.reach(root)
        known.row = row
        self._workspaces[root] = known  # the last one is the latest used
        if scope is not None:
            known.use(scope.private, scope.is_closed)
        for old in list(self._workspaces)[:-MAX_WORKSPACES]:
            if not self.windows.of(old):
                del self._workspaces[old]
        return known

    def forget_workspace(self, root: str) -> None:
        self._workspaces.pop(root, None)

    @contextmanager
    def transaction(self, scope: Scope) -> Generator[Workspace]:
        """A workspace whose changes are saved together."""
        with self.saving():
            workspace = self.workspace(scope.root, scope)
            yield workspace
            self.windows.attribute(workspace.noticed, scope.root)
            workspace.noticed.clear()
            self._save(workspace)

    # --- inside ---------------------------------------------------------------------------------------------------

    def _end(self, window: Window, scope: Scope, *, may_wait: bool, is_recovered: bool) -> Ended | list[str]:
        own = Scope(scope.root, window.paths, window.parent, scope.private, scope.is_closed)
        workspace = self._look(own, window)
        if may_wait and (awaited := self._awaited(window, workspace)):
            return awaited
        changes, overlaps = self.windows.end(window)
        return Ended(window.checkpoint, tuple(changes), self.coverage(scope.root), overlaps, is_recovered)

    def _awaited(self, window: Window, workspace: Workspace) -> list[str]:
        if not workspace.pending:
            return []
        return [path for path, _, _ in load_changes(self.db, window.checkpoint) if path in workspace.pending]

    def _end_dead(self, workspace: Workspace, by: Window | None, *, is_full: bool) -> None:
        """Whose process died gets what this look found; what comes later is not theirs."""
        for dead in self.windows.dead(workspace.root):
            if by is not None and dead.checkpoint == by.checkpoint:
                continue
            if dead.paths is not None:
                self.windows.attribute(workspace.look_at(dead.paths), workspace.root, dead)
            elif not is_full:
                continue
            self.windows.end(dead)

    def _find_ended(self, key: CallKey, root: str) -> Ended | None:
        """What an earlier process found and did not record in the session's log."""
        query = "SELECT 1 FROM checkpoints WHERE id = ? AND state = 'found'"
        if self.db.execute(query, (key.checkpoint,)).fetchone() is None:
            return None
        changes = tuple(load_changes(self.db, key.checkpoint))
        return Ended(key.checkpoint, changes, self.coverage(root), is_recovered=True)

    def _save(self, workspace: Workspace, *, is_looked: bool = False) -> None:
        number, version, looked = workspace.row
        if workspace.dirty:
            version = tick(self.db)
            save_files(self.db, number, workspace.dirty)
            workspace.dirty.clear()
        if is_looked:
            looked = tick(self.db)
        workspace.row = RootRow(number, version, looked)
        save_root(self.db, workspace.row)

    @contextmanager
    def saving(self) -> Generator[None]:
        """Everything inside is committed together, or not at all."""
        self.db.execute("BEGIN IMMEDIATE")
        try:
            self.contents.load_total()
            yield
            self.contents.save_total()
            self.db.execute("COMMIT")
            self.contents.sweep()
        except BaseException:
            with suppress(sqlite3.Error):
                self.db.execute("ROLLBACK")
            self._workspaces.clear()  # what is in memory was not saved
            with suppress(sqlite3.Error):
                self.contents.load_total()
            raise


def unsuitable(root: str) -> str:
    """Why a folder as a whole is not watched; empty if it is."""
    home = os.path.realpath(os.path.expanduser("~"))  # noqa: PTH111 - plain text
    if root == "/" or f"{home}/".startswith(f"{root}/"):
        return "the workspace is a home directory, or contains one"
    return ""
