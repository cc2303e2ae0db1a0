"""When a run is to be cancelled: a timer for what the log says, in whatever process has the session."""

import asyncio
from collections.abc import Awaitable, Callable

from buddy.backends.runstate import RunState


class RunDeadline:
    def __init__(self, clock: Callable[[], int], cancel: Callable[[str], Awaitable[None]]) -> None:
        """`cancel` is called with the reason; it has no effect on a run that is over or already ending."""
        self._clock = clock
        self._cancel = cancel
        self._timer: asyncio.TimerHandle | None = None
        self._cancelling: asyncio.Task[None] | None = None

    def follow(self, run: RunState | None) -> None:
        """Set the timer for this run, or none."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if run is not None and run.scheduled is not None and run.cancelling is None:
            seconds = max(0.0, (run.scheduled.at - self._clock()) / 1000)
            self._timer = asyncio.get_running_loop().call_later(seconds, self._reach, run.scheduled.reason)

    def _reach(self, reason: str) -> None:
        self._cancelling = asyncio.get_running_loop().create_task(self._end(reason))

    async def _end(self, reason: str) -> None:
        await self._cancel(reason)
