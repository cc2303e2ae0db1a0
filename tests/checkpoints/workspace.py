"""A checkpoint store and a workspace, used as sessions use them."""

import asyncio
import itertools
import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

from buddy.checkpoints.checkpoints import Checkpoints
from buddy.checkpoints.contract import CallKey, Conflict, Coverage, Ended, Plan, Scope
from buddy.checkpoints.entries import Change
from buddy.checkpoints.limits import CheckpointLimits

_numbers = itertools.count(1)


class Workspace:
    """Use it as `async with`; `state` outlives it, so that another one can go on with the same store."""

    def __init__(self, folder: Path, limits: CheckpointLimits | None = None) -> None:
        self.root = folder / "work"
        self.state = folder / "state"
        self.root.mkdir(parents=True, exist_ok=True)
        self.state.mkdir(exist_ok=True)
        self.checkpoints = Checkpoints(self.state, limits)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.checkpoints.close()

    def scope(self) -> Scope:
        return Scope(os.path.realpath(self.root))

    async def begin(self, session: str = "sess_a") -> tuple[CallKey, Coverage]:
        key = CallKey(session, "run_a", f"call_{next(_numbers)}")
        return key, await self.checkpoints.begin(key, self.scope())

    async def end(self, key: CallKey) -> Ended:
        ended = await self.checkpoints.end(key, self.scope())
        assert ended is not None
        await self.checkpoints.report(ended.checkpoint)
        return ended

    async def call(self, work: str | Callable[[], object]) -> Ended:
        """A call that runs a shell command, or a function."""
        key, _ = await self.begin()
        await asyncio.to_thread(self._run, work)
        return await self.end(key)

    def _run(self, work: str | Callable[[], object]) -> None:
        if isinstance(work, str):
            self.sh(work)
        else:
            work()

    def sh(self, command: str) -> None:
        subprocess.run(["sh", "-c", command], cwd=self.root, check=True)

    async def undo(self, changes: Sequence[Change], *force: str) -> tuple[list[Change], list[Conflict]]:
        """Bring back what some changes were before; returns what was done and what was not."""
        plan = await self.checkpoints.plan(self.scope(), changes, frozenset(force), lambda _: None)
        done, problems = await self.carry_out(plan)
        return done, [*plan.conflicts, *problems]

    async def carry_out(self, plan: Plan) -> tuple[list[Change], list[Conflict]]:
        key = CallKey("sess_a", "", f"restore_{next(_numbers)}")
        await self.checkpoints.record_restore(key, self.scope().root, plan.steps, "{}")
        done = await self.checkpoints.restore(key.checkpoint, self.scope())
        await self.checkpoints.report(key.checkpoint)
        return done
