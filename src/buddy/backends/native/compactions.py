"""The compactions of a session that are in effect: a pure fold of its events, until it is bounded.

Invariant: bounded, it holds the last `UNDOABLE` + 1. The oldest can be restored, but not undone: what it replaced must
be read from the log.
"""

from msgspec import Struct

from buddy.backends.contract import UNDOABLE
from buddy.protocol.events import SessionCompacted


class Compactions(Struct):
    """Feed it compactions and their undoing in order."""

    in_effect: list[SessionCompacted] = []
    base: int = 0
    is_deep: bool = False
    """Whether more than `UNDOABLE` were ever in effect at a time."""
    is_bounded: bool = False
    is_late: bool = False
    """Whether what came before the oldest one is not held."""

    def begin_late(self, base: int) -> None:
        """What came before will not be applied: the compaction with this seq becomes the oldest one."""
        self.base, self.is_deep = base, True

    def apply(self, seq: int, body: SessionCompacted) -> None:
        if seq == self.base:
            self.in_effect, self.is_late = [], True
        if not body.undo:
            self.in_effect.append(body)
            self.is_deep = self.is_deep or len(self.in_effect) > UNDOABLE
        elif self.in_effect and self.can_undo:
            self.in_effect.pop()

    @property
    def latest(self) -> SessionCompacted | None:
        return self.in_effect[-1] if self.in_effect else None

    @property
    def can_undo(self) -> bool:
        """Whether what the latest one replaced is held."""
        return not self.is_late or len(self.in_effect) > 1

    def trim(self) -> SessionCompacted | None:
        """The compaction before which nothing needs to be held; None if everything does."""
        if not self.is_bounded or len(self.in_effect) <= UNDOABLE:
            return None
        del self.in_effect[: -UNDOABLE - 1]
        self.is_late = True
        return self.in_effect[0]
