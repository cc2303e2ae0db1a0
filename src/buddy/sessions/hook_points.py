"""The set points at which a session runs hooks, and the record of what they answered.

Invariants: what a hook answered is recorded before it has an effect; hooks that nobody waits for (`SessionStart`,
`Notification`) record outside the run, and are over when the session is closed.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from msgspec.structs import replace

from buddy.backends.hooks import FAIL_CLOSED, HookCall, Hooks, explain
from buddy.errors import LogError
from buddy.protocol.codes import Policy
from buddy.protocol.events import WarningRaised
from buddy.protocol.hook_events import HookEvent, HookFinished
from buddy.sessions.journal import Journal

END_SECONDS = 5.0
"""How long the end of a session waits for its hooks."""
WARNING = "HOOK_FAILED"
_MODES: dict[Policy, str] = {"all": "bypassPermissions", "none": "dontAsk"}


class HookPoints:
    """The hooks of one session. `mode` says whether it plans, and the policy in force."""

    def __init__(self, hooks: Hooks, journal: Journal, mode: Callable[[], tuple[bool, Policy]]) -> None:
        self._hooks = hooks
        self._journal = journal
        self._mode = mode
        self._starting: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def watches(self, event: HookEvent) -> bool:
        return self._hooks.watches(event)

    async def run(self, call: HookCall, run_id: str | None) -> tuple[HookFinished, ...]:
        """Run what is defined for this point, and record what it answered."""
        if not self._hooks.watches(call.event):
            return ()
        planning, policy = self._mode()
        mode = "plan" if planning else _MODES.get(policy, "default")
        finished = await self._hooks.run(replace(call, fields={"permission_mode": mode, **call.fields}))
        self.record(finished, run_id)
        return finished

    def record(self, finished: tuple[HookFinished, ...], run_id: str | None) -> None:
        """Record the answers; a hook that guards nothing and failed is reported by a warning."""
        for body in finished:
            self._journal.record(body, run_id)
        for body in finished:
            if body.verdict == "failed" and body.event not in FAIL_CLOSED:
                message = f"{body.event}: {explain(body)}"
                self._journal.record(WarningRaised(code=WARNING, message=message), run_id)

    def begin(self, source: str) -> None:
        """Run the hooks of a session's start; its first run waits for them."""
        if self._hooks.watches("SessionStart"):
            call = HookCall("SessionStart", matched=source, fields={"source": source})
            self._starting = self._spawn(self._run_outside(call))

    def notify(self, message: str, kind: str) -> None:
        """Run the hooks that tell somebody; nobody waits for them."""
        if self._hooks.watches("Notification"):
            fields = {"message": message, "title": "Buddy", "notification_type": kind}
            self._spawn(self._run_outside(HookCall("Notification", matched=kind, fields=fields)))

    async def wait_started(self) -> None:
        """Until a run may begin."""
        if self._starting is not None:
            await asyncio.wait([self._starting])
        await self._hooks.wait_ready()

    async def stop(self) -> None:
        """Stop what nobody waits for."""
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(list(self._tasks))
        await self._hooks.close()

    async def end(self, reason: str) -> None:
        """Run the hooks of a session's end, for a short while."""
        if self._hooks.watches("SessionEnd"):
            with suppress(TimeoutError):
                async with asyncio.timeout(END_SECONDS):
                    await self._run_outside(HookCall("SessionEnd", matched=reason, fields={"reason": reason}))

    async def _run_outside(self, call: HookCall) -> None:
        with suppress(LogError):  # the session is lost anyway, and the next to open it says why
            await self.run(call, None)
            await self._journal.commit()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
