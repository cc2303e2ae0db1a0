"""The checkpoint store for the rest of the program: asynchronous, on a thread of its own, opened when it is needed.

Invariants: at most one operation runs at a time; an operation that was started is finished even if nobody waits for it
any more; a store that cannot be used turns checkpoints off with a reason, and no run fails because of it. Neither the
thread nor the store's modules, SQLite among them, are loaded before the first operation.
"""

import asyncio
import math
import os
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from buddy.checkpoints.contract import CallKey, Conflict, Coverage, Ended, Plan, Recorded, Scope, Usage
from buddy.checkpoints.entries import Change
from buddy.checkpoints.limits import CheckpointLimits

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from buddy.checkpoints.operations import Operations

FOLDER = "checkpoints"
SLICE = 0.2
END_SECONDS = 60.0
"""How long the contents that a call left may take to be stored; what takes longer cannot be undone without --force."""
Result = TypeVar("Result")


class CheckpointError(Exception):
    """The store cannot be used now."""

    def __init__(self, message: str, *, is_disk_full: bool = False) -> None:
        super().__init__(message)
        self.is_disk_full = is_disk_full


class Checkpoints:
    def __init__(self, state_dir: Path, limits: CheckpointLimits | None = None) -> None:
        self.folder = state_dir / FOLDER
        self.limits = limits or CheckpointLimits()
        self._thread: ThreadPoolExecutor | None = None
        self._operations: Operations | None = None
        self._is_closed = False
        self._filling: dict[str, asyncio.Task[None]] = {}

    async def begin(self, key: CallKey, scope: Scope) -> Coverage:
        coverage = await self._do(lambda store: store.begin(key, scope))
        if coverage.pending and scope.root not in self._filling:
            task = asyncio.get_running_loop().create_task(self._fill(scope.root))
            self._filling[scope.root] = task
            task.add_done_callback(lambda _: self._filling.pop(scope.root, None))
        return coverage

    async def look(self, scope: Scope) -> Coverage:
        return await self._do(lambda store: store.look(scope))

    async def end(self, key: CallKey, scope: Scope) -> Ended | None:
        """What a call changed. Contents that take long are stored in slices, so that other sessions can go on."""
        found = await self._do(lambda store: store.end(key, scope))
        if isinstance(found, list):
            await self._fill(scope.root, frozenset(found), END_SECONDS)
            found = await self._do(lambda store: store.conclude(key, scope.root))
        return found

    async def split(self, key: CallKey, following: CallKey, scope: Scope) -> Ended | None:
        return await self._do(lambda store: store.split(key, following, scope))

    async def changes(self, checkpoints: Sequence[str]) -> dict[str, Recorded]:
        if self._operations is None and not self.folder.exists():
            return {}
        return await self._do(lambda store: store.changes(checkpoints))

    async def coverage(self, root: str) -> Coverage:
        return await self._do(lambda store: store.coverage(root))

    async def read(self, contents: Iterable[bytes]) -> dict[bytes, bytes]:
        """Contents by their ids, as far as they are kept."""
        return await self._do(lambda store: store.read(contents))

    async def plan(
        self, scope: Scope, wanted: Sequence[Change], force: frozenset[str], refuse: Callable[[str], str | None]
    ) -> Plan:
        return await self._do(lambda store: store.plan(scope, wanted, force, refuse))

    async def record_restore(self, key: CallKey, root: str, steps: Sequence[Change], detail: str) -> None:
        """Commit what a restore is about to do."""
        await self._do(lambda store: store.record_restore(key, root, steps, detail))

    async def restore(self, checkpoint: str, scope: Scope) -> tuple[list[Change], list[Conflict]]:
        """Do what was recorded; returns what was done, also by an earlier process, and what could not be."""
        return await self._do(lambda store: store.restore(checkpoint, scope))

    async def unfinished(self) -> list[tuple[str, str, str]]:
        """Restores that were recorded and not reported: checkpoint, session, detail."""
        if self._operations is None and not self.folder.exists():
            return []
        return await self._do(lambda store: store.unfinished())

    async def unrecorded(self, session_id: str) -> list[CallKey]:
        """Calls of a session whose changes may be missing in its log."""
        if self._operations is None and not self.folder.exists():
            return []
        return await self._do(lambda store: store.unrecorded(session_id))

    async def adopt(self, key: CallKey) -> None:
        """Go on with a call that an earlier process began."""
        await self._do(lambda store: store.adopt(key))

    async def report(self, checkpoint: str) -> None:
        """What the checkpoint says is in the session's log."""
        await self._do(lambda store: store.report(checkpoint))

    async def usage(self) -> Usage:
        return await self._do(lambda store: store.usage())

    async def prune(self, session_id: str | None = None) -> None:
        """Remove what is too old, or the checkpoints of a deleted session, if there is a store."""
        if self.folder.exists():
            await self._do(lambda store: store.prune(session_id))

    async def close(self) -> None:
        for task in list(self._filling.values()):
            task.cancel()
        self._is_closed = True
        if self._thread is None:
            return
        if self._operations is not None:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._operations.close)
        self._thread.shutdown(wait=False)

    async def _fill(self, root: str, first: frozenset[str] | None = None, seconds: float = math.inf) -> None:
        """Store contents, only those of `first` if there are some: a slice at a time, so that calls can go on."""
        deadline = time.monotonic() + seconds
        left = first or frozenset({""})
        while left and time.monotonic() < deadline:
            pending = await self._do(lambda store, wanted=left: store.fill(root, SLICE, wanted))
            left = pending if first is None else left & pending

    async def _do(self, work: "Callable[[Operations], Result]") -> Result:
        def run() -> Result:
            from buddy.checkpoints.operations import Operations

            if self._operations is None:
                self._operations = Operations(_make_private(self.folder), self.limits)
            return work(self._operations)

        if self._is_closed:
            raise CheckpointError("the checkpoint store is closed")
        if self._thread is None:
            from concurrent.futures import ThreadPoolExecutor

            self._thread = ThreadPoolExecutor(1, "checkpoints")
        started = asyncio.get_running_loop().run_in_executor(self._thread, run)
        try:
            # Shielded: a cancelled caller must not leave the store in the middle of something unrecorded.
            return await asyncio.shield(started)
        # Everything: a workspace may hold what nobody thought of (names, numbers, times), and a run must go on.
        except Exception as error:
            from buddy.checkpoints.database import is_disk_full

            reason = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
            message, is_full = f"the checkpoint store cannot be used: {reason}", is_disk_full(error, self.folder)
            raise CheckpointError(message, is_disk_full=is_full) from error


def _make_private(folder: Path) -> Path:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.stat().st_mode & 0o077:
        os.chmod(folder, 0o700)  # noqa: PTH101 - not through a link
    return folder
