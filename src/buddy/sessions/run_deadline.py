"""When a run is to be cancelled: a timer for what the log says, in whatever process has the session."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from buddy.backends.runstate import RunState
from buddy.errors import ProtocolError
from buddy.protocol.actors import RuntimeActor
from buddy.protocol.requests import CancelRun


class RunDeadline:
    def __init__(
        self, session_id: str, clock: Callable[[], int], cancel: Callable[[CancelRun, str], Awaitable[object]]
    ) -> None:
        self._session_id = session_id
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
            late = CancelRun(self._session_id, run.run_id, run.scheduled.reason)
            self._timer = asyncio.get_running_loop().call_later(seconds, self._reach, late)

    def _reach(self, late: CancelRun) -> None:
        self._cancelling = asyncio.get_running_loop().create_task(self._end(late))

    async def _end(self, late: CancelRun) -> None:
        with suppress(ProtocolError):  # it is over; or the log refused, and the next open sets a timer again
            await self._cancel(late, RuntimeActor.TIMEOUT)
