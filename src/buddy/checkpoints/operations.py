"""What can be done with the checkpoint store, each to its end, on the store's thread."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from buddy.checkpoints.contract import CallKey, Conflict, Coverage, Ended, Plan, Recorded, Scope, Usage
from buddy.checkpoints.entries import Change
from buddy.checkpoints.limits import CheckpointLimits
from buddy.checkpoints.planning import plan
from buddy.checkpoints.pruning import forget_session, make_room, prune, prune_if_due, usage
from buddy.checkpoints.restore_records import (
    close_checkpoint,
    finish_restore,
    record_restore,
    unfinished_restores,
    unrecorded_calls,
)
from buddy.checkpoints.restoring import carry_out
from buddy.checkpoints.rows import load_changes
from buddy.checkpoints.store import Store


class Operations:
    """The store itself; `Checkpoints` has the same methods and explains them."""

    def __init__(self, folder: Path, limits: CheckpointLimits) -> None:
        self._store = Store(folder, limits)
        self.close = self._store.close
        self.look = self._store.look
        self.conclude = self._store.conclude
        self.split = self._store.split
        self.coverage = self._store.coverage
        self.fill = self._store.fill
        self.adopt = self._store.windows.adopt

    def begin(self, key: CallKey, scope: Scope) -> Coverage:
        if self._store.contents.is_nearly_full:
            make_room(self._store)
        return self._store.begin(key, scope)

    def end(self, key: CallKey, scope: Scope) -> Ended | list[str] | None:
        found = self._store.end(key, scope, may_wait=True)
        prune_if_due(self._store)
        return found

    def changes(self, checkpoints: Sequence[str]) -> dict[str, Recorded]:
        return self._store.changes(checkpoints)

    def read(self, contents: Iterable[bytes]) -> dict[bytes, bytes]:
        found = {one: self._store.contents.get(one) for one in contents}
        return {one: data for one, data in found.items() if data is not None}

    def plan(
        self, scope: Scope, wanted: Sequence[Change], force: frozenset[str], refuse: Callable[[str], str | None]
    ) -> Plan:
        with self._store.transaction(scope) as workspace:
            return plan(workspace, wanted, force, refuse)

    def record_restore(self, key: CallKey, root: str, steps: Sequence[Change], detail: str) -> None:
        record_restore(self._store, key, root, steps, detail)

    def restore(self, checkpoint: str, scope: Scope) -> tuple[list[Change], list[Conflict]]:
        store = self._store
        steps = load_changes(store.db, checkpoint)
        with store.transaction(scope) as workspace:
            problems = carry_out(workspace, store.contents, steps, store.limits.max_file)
            failed = {problem.path for problem in problems}
            done = [step for step in steps if step.path not in failed]
            workspace.look_at(step.path for step in steps)
        finish_restore(store, checkpoint, done)
        return done, problems

    def unfinished(self) -> list[tuple[str, str, str]]:
        return unfinished_restores(self._store)

    def unrecorded(self, session_id: str) -> list[CallKey]:
        return unrecorded_calls(self._store, session_id)

    def report(self, checkpoint: str) -> None:
        close_checkpoint(self._store, checkpoint)

    def usage(self) -> Usage:
        return usage(self._store)

    def prune(self, session_id: str | None) -> None:
        if session_id is None:
            prune(self._store)
        else:
            forget_session(self._store, session_id)
