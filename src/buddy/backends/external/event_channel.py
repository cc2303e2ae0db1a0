"""The publishing side of an executor: events in order, protocol errors, and the end.

Invariants: events published before the end are still delivered after it; a slow reader makes the publisher wait;
`done` is set with the completion of a cancelled message, and stays set unless another message is sent.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator

from buddy.backends.external.contract import AgentEvent, Completion

MAX_QUEUED = 1000
ERRORS = 100


class EventChannel:
    """A mixin for executors; they call `publish` and, once, `end`."""

    def __init__(self) -> None:
        self.errors: deque[Exception] = deque(maxlen=ERRORS)
        self.done = asyncio.Event()
        self._has_ended = False
        self._queued: deque[AgentEvent] = deque()
        self._changed = asyncio.Event()
        self._not_full = asyncio.Event()
        self._not_full.set()

    async def publish(self, event: AgentEvent) -> None:
        await self._not_full.wait()
        self._queued.append(event)
        if isinstance(event, Completion) and event.reason == "cancelled":
            self.done.set()
        if len(self._queued) >= MAX_QUEUED:
            self._not_full.clear()
        self._changed.set()

    @property
    def can_continue(self) -> bool:
        return not self._has_ended

    def reopen(self) -> bool:
        """Another message is about to be sent, perhaps after a cancelled one; False after the end."""
        if not self._has_ended:
            self.done.clear()
        return not self._has_ended

    def end(self) -> None:
        self._has_ended = True
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
