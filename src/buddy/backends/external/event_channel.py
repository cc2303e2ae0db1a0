"""The publishing side of an executor: events in order, protocol errors, and the end.

Invariants: events published before the end are still delivered after it; a slow reader makes the publisher wait.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator

from buddy.backends.external.contract import AgentEvent

MAX_QUEUED = 1000
ERRORS = 100


class EventChannel:
    """A mixin for executors; they call `publish` and, once, `end`."""

    def __init__(self) -> None:
        self.errors: deque[Exception] = deque(maxlen=ERRORS)
        self.done = asyncio.Event()
        self._queued: deque[AgentEvent] = deque()
        self._changed = asyncio.Event()
        self._not_full = asyncio.Event()
        self._not_full.set()

    async def publish(self, event: AgentEvent) -> None:
        await self._not_full.wait()
        self._queued.append(event)
        if len(self._queued) >= MAX_QUEUED:
            self._not_full.clear()
        self._changed.set()

    def end(self) -> None:
        self.done.set()
        self._not_full.set()
        self._changed.set()

    async def events(self) -> AsyncIterator[AgentEvent]:
        while True:
            while self._queued:
                event = self._queued.popleft()
                if len(self._queued) < MAX_QUEUED:
                    self._not_full.set()
                yield event
            if self.done.is_set():
                return
            self._changed.clear()
            await self._changed.wait()
