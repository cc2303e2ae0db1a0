"""Reads a session's log when it is opened: only the events that its folds need, a page at a time.

Invariants: the folds are the same as from the full log. Of complete runs, the session itself needs its settings, and of
what each run replaces only the latest; its backend names the types that it needs. Since the last complete run, every
event is read that is neither transient nor informational, unless the backend needs that, too. A backend that reads the
log again when it must needs the conversation from its base on: see `past_base`. The complete runs of a short log are
searched once, for the session and its backend alike.
"""

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable
from collections.abc import Set as AbstractSet

from buddy.backends.contract import ReadPast
from buddy.log.contract import Log
from buddy.protocol.envelopes import Event
from buddy.protocol.events import EVENTS, LASTING, EventBody, SessionCompacted, events_where
from buddy.protocol.facts import Informational
from buddy.sessions.fork import Entry
from buddy.sessions.past_base import Base, Compacted, find_base
from buddy.sessions.spill import restore_spilled
from buddy.sessions.state import SessionFold

SETTINGS = frozenset(
    {
        *("session_started", "user_message", "session_compacted"),
        *("approval_policy_changed", "approval_received", "model_switched"),
    }
)
RARE = frozenset({"session_started", "approval_policy_changed", "model_switched"})
"""Settings that a backend needs from before its base."""
REPLACED = ("assistant_message", "usage")
"""Of complete runs, a session needs the latest of each."""
PIECES = frozenset({"assistant_token", "thinking_token"})
NOTES = frozenset(name for name, body in EVENTS.items() if issubclass(body, Informational))
KEPT_OPEN = events_where(lambda facts: not facts.transient) - NOTES
ENDS_REPLY = events_where(lambda facts: facts.ends_reply)
PAGE = 500
SHORT = 4096
"""Events that are searched at once."""


class RecordedSession:
    """Created by `read_past`; use it immediately, while holding the session's lease."""

    def __init__(self, log: Log, session_id: str, complete: Event | None, last_seq: int) -> None:
        self.fold = SessionFold()
        self._log = log
        self._session_id = session_id
        self._complete = complete
        self._over = complete.seq if complete else 0
        self._last_seq = last_seq
        self._open = (self._over, self._over)  # between which an open run has what it needs
        self._short: list[Event] | None = None  # what lasts of the complete runs of a short log
        self._piece: Event | None = None
        self._first_seq = 0
        self._rare: list[Entry] = []
        self._compacted: list[Compacted] = []

    async def read(self) -> None:
        """Fold the session's own state."""
        if self._over <= SHORT:
            self._short = await self._log.read(self._session_id, 0, SHORT, LASTING, self._over)
        latest = [await self._latest(kind) for kind in REPLACED]
        async for page in self._read(SETTINGS, 0, self._over, [*latest, self._complete]):
            self._apply(page)
        settled = first = last = self._over
        async for page in self._read(KEPT_OPEN, self._over, self._last_seq):
            self._apply(page)
            first = first if first > self._over else page[0][0].seq
            last = page[-1][0].seq
            settled = next((event.seq for event, _ in reversed(page) if event.type in ENDS_REPLY), settled)
        self._open = (max(first - 1, self._over), last)
        if self.fold.run is not None:  # was a reply under way?
            self._piece = await self._log.last(self._session_id, PIECES, settled, self._last_seq)
            self._apply([] if self._piece is None else [(self._piece, self._piece.body())])

    async def find_base(self) -> Base | None:
        """Where the conversation must be read from; None if that is its beginning."""
        if self._first_seq > 1:
            return None  # the summaries have what was pruned
        return await find_base(self._log, self._session_id, self._compacted, self._over)

    async def pages(self, types: AbstractSet[str], base: Base | None = None) -> AsyncIterator[list[Entry]]:
        """The events of the open run, and from complete runs those of these types and the last `usage`.

        With a base, those before it are only the rare settings.
        """
        usage, after = await self._latest("usage"), 0
        if base is not None:
            after = base.first - 1
            older, usage = ([usage], None) if usage is not None and usage.seq <= after else ([], usage)
            rare = [entry for entry in self._rare if entry[0].seq <= after]
            yield sorted([*rare, *await _with_bodies(self._log, older)], key=_seq)
        async for page in self._read(types, after, self._over, [usage]):
            yield page
        notes = types & NOTES
        after, through = (self._over, self._last_seq) if notes else self._open
        async for page in self._read(KEPT_OPEN | notes, after, through):
            yield page
        if self._piece is not None:
            yield [(self._piece, self._piece.body())]

    def reader(self, types: AbstractSet[str]) -> ReadPast:
        return past_reader(self._log, self._session_id, types)

    async def has_blob(self, blob: str) -> bool:
        return await self._log.has_blob(self._session_id, blob)

    async def _latest(self, kind: str) -> Event | None:
        return await self._log.last(self._session_id, (kind,), 0, self._over) if self._over else None

    async def _read(
        self, types: AbstractSet[str], after: int, through: int, others: Iterable[Event | None] = ()
    ) -> AsyncIterator[list[Entry]]:
        """The events of these types, and others in their places."""
        extra = [event for event in others if event is not None and event.type not in types]
        async for page in self._pages(types, after, through):
            before = [event for event in extra if event.seq < page[-1][0].seq]
            extra = [event for event in extra if event not in before]
            yield sorted([*page, *await _with_bodies(self._log, before)], key=_seq) if before else page
        if extra:
            yield sorted(await _with_bodies(self._log, extra), key=_seq)

    async def _pages(self, types: AbstractSet[str], after: int, through: int) -> AsyncIterator[list[Entry]]:
        if self._short is None or through > self._over or not types <= LASTING:
            async for page in read_pages(self._log, self._session_id, after, types=types, through=through):
                yield page
            return
        found = [event for event in self._short if event.type in types and after < event.seq <= through]
        for start in range(0, len(found), PAGE):
            yield await _with_bodies(self._log, found[start : start + PAGE])
            await asyncio.sleep(0)  # others are served in between

    def _apply(self, page: Iterable[Entry]) -> None:
        for event, body in page:
            self._first_seq = self._first_seq or event.seq
            if body is None:
                continue
            self.fold.apply(event, body)
            if isinstance(body, SessionCompacted):
                self._compacted.append(Compacted(event.seq, body.through_seq, body.undo))
            elif event.type in RARE:
                self._rare.append((event, body))


def past_reader(log: Log, session_id: str, types: AbstractSet[str]) -> ReadPast:
    """Reads the events of some types again, whenever it is called."""

    async def read(through: int | None) -> AsyncIterator[tuple[int, EventBody]]:
        async for page in read_pages(log, session_id, types=types, through=through):
            for event, body in page:
                if body is not None:
                    yield event.seq, body

    return read


async def read_past(log: Log, session_id: str, last_seq: int) -> RecordedSession:
    complete = await log.last(session_id, ("run_complete",), 0, last_seq)
    past = RecordedSession(log, session_id, complete, last_seq)
    await past.read()
    return past


async def read_pages(
    log: Log, session_id: str, after: int = 0, *, types: Collection[str] = (), through: int | None = None
) -> AsyncIterator[list[Entry]]:
    """Every event, or those of some types, with its full body; None for a type this version does not know."""
    while through is None or after < through:
        events = await log.read(session_id, after, PAGE, types, through)
        if events:
            yield await _with_bodies(log, events)
        if len(events) < PAGE:
            break
        after = events[-1].seq
        await asyncio.sleep(0)  # others are served in between, however long the log is


async def read_entries(
    log: Log, session_id: str, after: int = 0, *, types: Collection[str] = (), through: int | None = None
) -> list[Entry]:
    """All pages in one list: for types that are rare."""
    pages = read_pages(log, session_id, after, types=types, through=through)
    return [entry async for page in pages for entry in page]


async def _with_bodies(log: Log, events: Iterable[Event]) -> list[Entry]:
    entries: list[Entry] = []
    for event in events:
        body = event.body()
        entries.append((event, await _restored(log, event) if body is not None and body.blobs else body))
    return entries


async def _restored(log: Log, event: Event) -> EventBody | None:
    async def read(blob: str) -> bytes | None:
        found = await log.read_blob(blob)
        return found[0] if found else None

    return await restore_spilled(event, read)


def _seq(entry: Entry) -> int:
    return entry[0].seq
