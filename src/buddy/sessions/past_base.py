"""Where the conversation of a session that was compacted often is read from when it is opened.

Invariant: from there on it is the same as from the beginning, as long as no more than `UNDOABLE` compactions are
undone. The base is a compaction that is in effect, with `UNDOABLE` or more after it. Reading begins one complete run
before the message that stays in the history beside the base's summary, so that what hooks added to it is read, too.
"""

from collections.abc import Sequence

from msgspec import Struct

from buddy.backends.contract import UNDOABLE
from buddy.log.contract import EventLog


class Compacted(Struct, frozen=True):
    """A compaction, or the undoing of one, and where it is in the log."""

    seq: int
    through: int
    undo: bool


class Base(Struct, frozen=True):
    """The oldest compaction that can be restored, and the first event that is read."""

    seq: int
    first: int


async def find_base(log: EventLog, session_id: str, compacted: Sequence[Compacted], over: int) -> Base | None:
    """The base, in the runs that are `over`; None if everything must be read."""
    base = _compaction(compacted, over)
    if base is None:
        return None
    end = base.through + 1
    for kind in ("user_message", "run_complete", "user_message", "run_complete"):
        event = await log.last(session_id, (kind,), 0, end - 1)
        if event is None:
            return None
        end = event.seq
    return Base(base.seq, end + 1)


def _compaction(compacted: Sequence[Compacted], over: int) -> Compacted | None:
    """The latest one with `UNDOABLE` others after it that are in effect, each of which goes further than the last."""
    in_effect: list[Compacted] = []
    for one in compacted:
        if not one.undo:
            in_effect.append(one)
        elif in_effect:
            in_effect.pop()
    found = next((one for one in reversed(in_effect[:-UNDOABLE]) if one.seq <= over), None)
    if found is None or not found.through < found.seq:
        return None
    later = (one for one in in_effect if one.seq > found.seq)
    return found if all(one.through >= found.through for one in later) else None
