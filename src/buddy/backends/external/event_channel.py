"""The telling side of an executor: events in order, what was not understood, and the end.

Invariants: what was told before the end is still given after it; a reader that is slow makes the teller wait.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator

from buddy.backends.external.contract import AgentEvent

MAX_QUEUED = 1000
ERRORS = 100


class EventChannel:
    """Mixed into executors; they call `publish` and, once, `end`."""

    def __init__(self) -> None:
        self.errors: deque[Exception] = deque(maxlen=ERRORS)
        self.done = asyncio.Event()
        self._told: deque[AgentEvent] = deque()
        self._changed = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()

    async def publish(self, event: AgentEvent) -> None:
        await self._room.wait()
        self._told.append(event)
        if len(self._told) >= MAX_QUEUED:
            self._room.clear()
        self._changed.set()

    def end(self) -> None:
        self.done.set()
        self._room.set()
        self._changed.set()

    async def events(self) -> AsyncIterator[AgentEvent]:
        while True:
            while self._told:
                event = self._told.popleft()
                if len(self._told) < MAX_QUEUED:
                    self._room.set()
                yield event
            if self.done.is_set():
                return
            self._changed.clear()
            await self._changed.wait()
