"""Tracks the messages sent to Droid that it has not finished yet.

    sent → taken up (it shows the message again, with our request's id) → worked off

Invariants: the end of a turn counts once, however often and in whatever way it is told; a message that was sent
while it worked is a turn of its own, and only when none is left is the work over.
"""

from collections import deque

ENDED_KEPT = 100


class Turns:
    def __init__(self) -> None:
        self._open: dict[str, bool] = {}
        """By the id of the request it was sent with: whether it was taken up."""
        self._working = False
        self._ended: deque[str] = deque(maxlen=ENDED_KEPT)

    def send(self, request_id: str) -> None:
        self._open[request_id] = False

    def take_up(self, request_id: str | None) -> None:
        """It shows a message of the user; older versions do not say which, and take them in order."""
        waiting = [sent for sent, taken in self._open.items() if not taken]
        taken = request_id if request_id in self._open else next(iter(waiting), None)
        if taken is not None:
            self._open[taken] = True
        self._working = True

    def work(self) -> None:
        self._working = True

    def complete(self, turn_id: str, *, cancelled: bool = False) -> bool:
        """It says that a turn is over; whether with it all work is, as it is when that was called off."""
        if turn_id in self._ended or not (turn_id or self._working):
            return False
        if turn_id:
            self._ended.append(turn_id)
        if cancelled:
            self._open = dict.fromkeys(self._open, True)
        return self._end()

    def idle(self) -> bool:
        """It does nothing any more; whether that is news, and all work is over."""
        return self._working and self._end()

    def drop(self, request_id: str) -> bool:
        """A message was refused; whether with it all work is over."""
        return self._open.pop(request_id, None) is not None and not self._open

    def _end(self) -> bool:
        self._working = False
        done = [sent for sent, taken in self._open.items() if taken] or list(self._open)[:1]
        for sent in done:
            del self._open[sent]
        return bool(done) and not self._open
