"""Whoever waits for a model goes on with few others, so that a hundred answers at once hold nobody else up.

What always holds: they go on in the order in which their answers came, a few in each turn of the event loop; between
two turns the loop hears everybody, a person's decision or cancel among them.
"""

import asyncio
from collections import deque

AT_ONCE = 2
"""What these record is committed together; more would save less each, and have everybody else wait longer."""


class Turnstile:
    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[bool]] = deque()
        self._is_taken = False

    def wake(self, waiter: asyncio.Future[bool]) -> None:
        """Let it go on: now, or as soon as it is its turn."""
        self._waiting.append(waiter)
        if not self._is_taken:
            self._next()

    def _next(self) -> None:
        going = 0
        while self._waiting and going < AT_ONCE:
            waiter = self._waiting.popleft()
            if not waiter.done():  # else nobody waits any more
                waiter.set_result(True)
                going += 1
        self._is_taken = going > 0
        if self._is_taken:
            asyncio.get_running_loop().call_soon(self._next)
