"""The requests of a connection that take long, and those that wait for them.

Invariants: requests of one session are served one after another, in their order; no session waits for another.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable


class LongRequests:
    """`pending` counts those that are not answered yet."""

    def __init__(self, tasks: asyncio.TaskGroup) -> None:
        self.pending = 0
        self._tasks = tasks
        self._last: dict[str, asyncio.Task[None]] = {}

    def is_busy(self, session_id: str) -> bool:
        return session_id in self._last

    def serve(self, session_id: str, exchange: Callable[[], Awaitable[None]]) -> None:
        """Answer a request once those before it are answered; without a session, at once."""
        task = self._tasks.create_task(_exchange_after(self._last.get(session_id), exchange))
        self.pending += 1
        if session_id:
            self._last[session_id] = task
        task.add_done_callback(lambda _: self._end(session_id, task))

    def _end(self, session_id: str, task: asyncio.Task[None]) -> None:
        self.pending -= 1
        if self._last.get(session_id) is task:
            del self._last[session_id]


async def _exchange_after(before: asyncio.Task[None] | None, exchange: Callable[[], Awaitable[None]]) -> None:
    if before is not None:
        await asyncio.wait([before])
    with contextlib.suppress(ConnectionError):  # the peer is gone; what it asked for is done
        await exchange()
