"""How many sessions a node takes at a time.

Invariants: what is being opened never exceeds a window, which starts small, grows with every session that was opened,
and is small again after a pause; a node whose own beats are late takes nothing.

When a node is lost, or drained, all others see its sessions at the same moment. A node that takes them all at once is
so busy opening them that its own beats are late, and the next node takes them from it.
"""

import time
from collections.abc import Callable

FIRST_WINDOW = 8
LARGEST_WINDOW = 256


class TakePace:
    """`longest_gap` is the time between two beats, in seconds, from which on they are late."""

    def __init__(self, longest_gap: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._longest_gap = longest_gap
        self._clock = clock
        self._window = FIRST_WINDOW
        self._beaten_at = clock()
        self._gap = 0.0

    @property
    def is_late(self) -> bool:
        return max(self._gap, self._clock() - self._beaten_at) > self._longest_gap

    def note_beat(self) -> None:
        """A beat was answered."""
        now = self._clock()
        self._gap, self._beaten_at = now - self._beaten_at, now
        if self.is_late:
            self._window = FIRST_WINDOW

    def note_opened(self) -> None:
        """A session that was taken is open."""
        self._window = min(self._window + 1, LARGEST_WINDOW)

    def note_nothing_waits(self) -> None:
        self._window = FIRST_WINDOW

    def limit(self, room: int, opening: int) -> int:
        """How many to take now, with room for this many more runs, and this many sessions being opened."""
        return 0 if self.is_late else max(0, min(room, self._window) - opening)
