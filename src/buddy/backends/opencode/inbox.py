"""The stream events that a conversation has not processed yet.

Invariants: the queue is bounded; if it overflows, its content is replaced by a gap, and the reader then queries the
server for the current state.
"""

import asyncio
from collections import deque
from typing import Literal

from buddy.backends.external.event_channel import MAX_QUEUED
from buddy.backends.opencode.wire import StreamEvent

Gap = Literal["gap"]
GAP: Gap = "gap"


class Inbox:
    def __init__(self) -> None:
        self._queued: deque[StreamEvent | Gap] = deque()
        self._arrived = asyncio.Event()

    def put(self, event: StreamEvent) -> None:
        if len(self._queued) >= MAX_QUEUED:
            self.mark_gap()
            return
        self._queued.append(event)
        self._arrived.set()

    def mark_gap(self) -> None:
        """Events may have been missed; the queued ones are covered by the query that follows."""
        self._queued.clear()
        self._queued.append(GAP)
        self._arrived.set()

    async def get(self) -> StreamEvent | Gap:
        while not self._queued:
            self._arrived.clear()
            await self._arrived.wait()
        return self._queued.popleft()
