"""The followers of a session, and its latest events: only followers that are further behind read the log.

Invariants: every follower is woken by every commit, and when the session breaks or closes; what the only follower has
received is not held.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from itertools import islice

from buddy.protocol.envelopes import Event

# With a hundred concurrent runs, these events are most of a session's memory.
RECENT = 32
RECENT_AT_REST = 16


class Audience:
    def __init__(self) -> None:
        self._recent: deque[Event] = deque(maxlen=RECENT)
        self._last_seq = 0  # 0 until something was published
        self._listening: set[asyncio.Event] = set()

    def __bool__(self) -> bool:
        return bool(self._listening)

    def listen(self, wakeup: asyncio.Event) -> None:
        """Have an asyncio.Event set whenever there is something to look at."""
        self._listening.add(wakeup)

    def unlisten(self, wakeup: asyncio.Event) -> None:
        self._listening.discard(wakeup)

    def wake(self) -> None:
        for wakeup in self._listening:
            wakeup.set()

    def publish(self, events: Sequence[Event]) -> None:
        """Add committed events, and wake all followers."""
        if events:
            self._recent.extend(events)
            self._last_seq = events[-1].seq
        self.wake()

    def recent(self, after: int) -> Sequence[Event] | None:
        """The committed events after a cursor if all are still in memory, else None."""
        newer = self._last_seq - after
        if newer > len(self._recent) or not self._last_seq:
            return None
        return list(islice(reversed(self._recent), newer))[::-1] if newer > 0 else []

    def note_received(self, seq: int) -> None:
        """A follower has received what comes up to this seq: if there is no other one, nobody needs it any more."""
        if len(self._listening) == 1:
            self.forget(seq + 1)

    def rest(self) -> None:
        """Hold fewer events between runs: later followers read the log."""
        while len(self._recent) > RECENT_AT_REST:
            self._recent.popleft()

    def forget(self, before: int) -> None:
        """Drop what comes before this seq: it is no longer in the log."""
        while self._recent and self._recent[0].seq < before:
            self._recent.popleft()
