"""The followers of a session, and its latest events: only followers that are further behind read the log.

Invariant: every follower is notified of every commit, and of whatever else may end what it follows.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from itertools import islice

from buddy.protocol.envelopes import Event

# With a hundred runs at once, these events are most of the memory of a session.
RECENT = 32
RECENT_AT_REST = 16


class Audience:
    def __init__(self) -> None:
        self._recent: deque[Event] = deque(maxlen=RECENT)
        self._listening: set[asyncio.Event] = set()

    def __bool__(self) -> bool:
        return bool(self._listening)

    def listen(self, heard: asyncio.Event) -> None:
        """Have an asyncio.Event set whenever there is something to look at."""
        self._listening.add(heard)

    def unlisten(self, heard: asyncio.Event) -> None:
        self._listening.discard(heard)

    def wake(self) -> None:
        for heard in self._listening:
            heard.set()

    def publish(self, events: Sequence[Event]) -> None:
        """These were committed."""
        self._recent.extend(events)
        self.wake()

    def recent(self, after: int) -> Sequence[Event] | None:
        """The committed events after a cursor where they are all still in memory, else None."""
        if not self._recent or self._recent[0].seq > after + 1:
            return None
        newer = self._recent[-1].seq - after
        return list(islice(reversed(self._recent), newer))[::-1] if newer > 0 else []

    def rest(self) -> None:
        """Between runs, hold fewer events: later followers read the log."""
        while len(self._recent) > RECENT_AT_REST:
            self._recent.popleft()

    def forget(self, before: int) -> None:
        """What comes before this seq is no longer in the log."""
        while self._recent and self._recent[0].seq < before:
            self._recent.popleft()
