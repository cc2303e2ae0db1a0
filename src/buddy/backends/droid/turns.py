"""Tracks the messages sent to Droid that it has not finished yet.

    sent → accepted (Droid echoes the message with our request's id) → done

Invariants: the end of a turn counts once, however often and in whatever form it is reported; a message sent while
Droid works is a turn of its own, and the work is over only when no turn is left.
"""

from collections import deque

REMEMBERED_ENDS = 100


class Turns:
    def __init__(self) -> None:
        self._open: dict[str, bool] = {}
        """Whether each message was accepted, by the id of the request that sent it."""
        self._working = False
        self._ended: deque[str] = deque(maxlen=REMEMBERED_ENDS)

    def send(self, request_id: str) -> None:
        self._open[request_id] = False

    def accept(self, request_id: str | None) -> None:
        """Droid echoes a user message; older versions do not say which one, but keep the order."""
        waiting = [sent for sent, accepted in self._open.items() if not accepted]
        accepted = request_id if request_id in self._open else next(iter(waiting), None)
        if accepted is not None:
            self._open[accepted] = True
        self._working = True

    def work(self) -> None:
        self._working = True

    def complete(self, turn_id: str, *, cancelled: bool = False) -> bool:
        """A turn ended; returns whether all work is over, as it is after a cancellation."""
        if turn_id in self._ended or not (turn_id or self._working):
            return False
        if turn_id:
            self._ended.append(turn_id)
        if cancelled:
            self._open = dict.fromkeys(self._open, True)
        return self._end()

    def idle(self) -> bool:
        """Droid is idle; returns whether all work is over, and was not before."""
        return self._working and self._end()

    def drop(self, request_id: str) -> bool:
        """A message was refused; returns whether all work is over."""
        return self._open.pop(request_id, None) is not None and not self._open

    def _end(self) -> bool:
        self._working = False
        done = [sent for sent, accepted in self._open.items() if accepted] or list(self._open)[:1]
        for sent in done:
            del self._open[sent]
        return bool(done) and not self._open
