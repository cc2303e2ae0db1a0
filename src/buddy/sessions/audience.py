"""Who follows a session, and the last events for them: only those that are further behind read the log.

What always holds: whoever listens is told of every commit, and of whatever else may end what it follows.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from itertools import islice

from buddy.protocol.envelopes import Event

# With a hundred runs at once, what is kept here is most of a session.
KEPT = 32
KEPT_AT_REST = 16


class Audience:
    def __init__(self) -> None:
        self._recent: deque[Event] = deque(maxlen=KEPT)
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

    def tell(self, events: Sequence[Event]) -> None:
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
        """Between runs, keep little: whoever comes later reads the log."""
        while len(self._recent) > KEPT_AT_REST:
            self._recent.popleft()

    def forget(self, before: int) -> None:
        """What comes before this seq is no longer in the log."""
        while self._recent and self._recent[0].seq < before:
            self._recent.popleft()
