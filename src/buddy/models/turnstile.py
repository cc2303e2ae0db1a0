"""Whoever waits for a model goes on one at a time, so that a hundred answers at once hold nobody else up.

What always holds: they go on in the order in which their answers came, one in each turn of the event loop; between two
turns the loop hears everybody, a person's decision or cancel among them.
"""

import asyncio
from collections import deque


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
        self._is_taken = False
        while self._waiting and not self._is_taken:
            waiter = self._waiting.popleft()
            if not waiter.done():  # nobody waits any more
                self._is_taken = True
                waiter.set_result(True)
                asyncio.get_running_loop().call_soon(self._next)
