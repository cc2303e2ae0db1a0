"""What the list of sessions shows of one: kept in its row, and written with the events that change it.

Invariants: a title that somebody gave is never replaced by a made one; the totals are those of the log, because each
event is counted in the transaction that records it; nothing here is read from the log again.
"""

from collections.abc import Callable

from msgspec.structs import replace

from buddy.log.contract import RowFacts, SessionRecord
from buddy.protocol.events import (
    ChildFinished,
    EventBody,
    SessionArchived,
    SessionCompacted,
    SessionRenamed,
    Usage,
    UserMessage,
)
from buddy.protocol.shapes import ContextState
from buddy.protocol.titles import title_of
from buddy.scrub.heuristics import mask as mask_guesses

DAY_MS = 24 * 3600 * 1000
_LISTED = frozenset({UserMessage, SessionRenamed, SessionArchived, Usage, SessionCompacted, ChildFinished})


class ListedRow:
    """The row of a session; starts as its record has it."""

    def __init__(self, record: SessionRecord | None = None) -> None:
        self.user = record.user if record else None
        self.title = record.title if record else None
        self.facts = record.facts if record else RowFacts()
        self.on_cost: Callable[[float, int], None] | None = None
        """Called with each cost that counts for a day, and its time."""
        self._written = self.title, self.facts

    def apply(self, body: EventBody, ts: int = 0) -> None:
        """Take over what an event changes; `ts` is its time, which decides the day that its cost belongs to."""
        if type(body) not in _LISTED:
            return
        match body:
            case UserMessage():
                # A list is seen by more eyes than a message.
                text = mask_guesses(body.text) if body.as_is and not self.title else body.text
                shown = next((image.name for image in body.attachments), "")
                self.title = self.title or title_of(text) or title_of(shown) or None
            case SessionRenamed():
                self.title = body.title
            case SessionArchived():
                self.facts = replace(self.facts, archived=body.archived)
            case Usage():
                self._count(body.input_tokens, body.output_tokens, body.cost_usd, ts)
                self._fill(body.context.used, body.context.limit, assumed=body.context.assumed)
            case SessionCompacted():
                self._count(body.input_tokens, body.output_tokens, body.cost_usd, ts)
                known = self.facts.context
                if known is not None:
                    self._fill(body.after_tokens, known.limit, assumed=known.assumed)
            case ChildFinished():
                # Its own row has the day that it belongs to: a user pays for it once.
                self._count(body.usage.input_tokens, body.usage.output_tokens, body.cost_usd, None)
            case _:
                pass

    def take_changes(self, waiting: int) -> tuple[str | None, RowFacts | None]:
        """The title and the facts, each None if it is as it was written last."""
        if waiting != self.facts.waiting:
            self.facts = replace(self.facts, waiting=waiting)
        title, facts = self._written
        self._written = self.title, self.facts
        return None if self.title == title else self.title, None if self.facts is facts else self.facts

    def _count(self, read: int | None, written: int | None, cost_usd: float | None, ts: int | None) -> None:
        tokens = self.facts.tokens + (read or 0) + (written or 0)
        cost = self.facts.cost_usd if cost_usd is None else (self.facts.cost_usd or 0.0) + cost_usd
        self.facts = replace(self.facts, tokens=tokens, cost_usd=cost)
        if cost_usd and ts is not None:
            day = day_of(ts)
            before = self.facts.day_cost_usd if self.facts.day == day else 0.0
            self.facts = replace(self.facts, day=day, day_cost_usd=before + cost_usd)
            if self.on_cost is not None:
                self.on_cost(cost_usd, ts)

    def _fill(self, used: int, limit: int, *, assumed: bool) -> None:
        self.facts = replace(self.facts, context=ContextState(used, limit, assumed=assumed))


def day_of(ts: int) -> int:
    """The day in UTC of a time in Unix milliseconds, counted from 1970."""
    return ts // DAY_MS
