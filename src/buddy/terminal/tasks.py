"""The background tasks of a terminal: owned in one place, and ended with it.

Invariants: a request that fails is shown and ends nothing else.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine

from buddy.errors import BuddyError


class BackgroundTasks:
    def __init__(self, show_error: Callable[[Exception], None]) -> None:
        self._show_error = show_error
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def request(self, work: Awaitable[object]) -> None:
        """Start work whose failure is shown."""
        self.start(self.show_failure(work))

    async def show_failure(self, work: Awaitable[object]) -> None:
        try:
            await work
        except (BuddyError, OSError) as error:
            self._show_error(error)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
