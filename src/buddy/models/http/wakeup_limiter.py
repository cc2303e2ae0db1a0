"""Wakes tasks that wait for a model a few at a time, so that a hundred responses at once do not block anyone else.

Invariants: tasks wake in the order in which their data arrived, a few in each iteration of the event loop; between two
iterations the loop serves everyone else, a person's decision or cancellation among them.
"""

import asyncio
from collections import deque

AT_ONCE = 2
"""What these tasks record is committed together; more would save less each, and make everyone else wait longer."""


class WakeupLimiter:
    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[bool]] = deque()
        self._is_scheduled = False

    def wake(self, waiter: asyncio.Future[bool]) -> None:
        """Resolve this future: now, or when it is its turn."""
        self._waiting.append(waiter)
        if not self._is_scheduled:
            self._wake_next()

    def _wake_next(self) -> None:
        woken = 0
        while self._waiting and woken < AT_ONCE:
            waiter = self._waiting.popleft()
            if not waiter.done():  # else nobody waits any more
                waiter.set_result(True)
                woken += 1
        self._is_scheduled = woken > 0
        if self._is_scheduled:
            asyncio.get_running_loop().call_soon(self._wake_next)
