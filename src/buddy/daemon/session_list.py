"""The list of sessions as clients see it: its pages, and who learns that a row changed.

Invariants: a row is read from the log after the commit that changed it, never made up; while nobody watches, a commit
costs one comparison; rows that change often are sent a few times a second at most.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress

from msgspec import structs

from buddy.errors import ProtocolError
from buddy.log.contract import Log, SessionQuery, SessionRecord
from buddy.protocol.envelopes import Event, session_row_line
from buddy.protocol.ids import is_id
from buddy.protocol.requests import ListSessions, ListSessionsReply, WatchSessions
from buddy.protocol.shapes import SessionRow, SessionSummary

GATHER_SECONDS = 0.1
"""How long changes are gathered before they are sent."""
POLL_SECONDS = 2.0
"""How often a watched list looks for changes by other processes, which cannot report theirs."""
POLLED = 50

SendLines = Callable[[bytes], None]


class Watcher:
    """One client's view of the list, which has `rows` so far. `send` must not wait; nothing is sent before `open`."""

    def __init__(
        self,
        query: SessionQuery,
        rows: Sequence[SessionSummary],
        may_see: Callable[[SessionRecord], bool],
        send: SendLines,
    ) -> None:
        self._query = query
        self._may_see = may_see
        self._held: list[bytes] = []
        self._send = self._held.append
        self._send_now = send
        self._sent = {row.session_id: _shown(row) for row in rows}

    def open(self) -> None:
        """The rows were sent: now the changes may follow."""
        self._send = self._send_now
        for line in self._held:
            self._send(line)
        self._held.clear()

    def update(self, record: SessionRecord, now: int) -> None:
        """Send the row if something in it changed that a person would see; also when it leaves the list."""
        row, known = summary_of(record), record.session_id in self._sent
        belongs = self._query.matches(record) and self._may_see(record)
        if not (belongs or known) or self._sent.get(record.session_id) == _shown(row):
            return
        if belongs:
            self._sent[record.session_id] = _shown(row)
        else:
            del self._sent[record.session_id]
        self._send(session_row_line(_row(row), now))

    def remove(self, session_id: str, now: int) -> None:
        row = self._sent.pop(session_id, None)
        if row is not None:
            self._send(session_row_line(structs.replace(_row(row), deleted=True), now))


class SessionList:
    def __init__(self, log: Log, clock: Callable[[], int]) -> None:
        self._log = log
        self._clock = clock
        self._watchers: dict[object, Watcher] = {}
        self._changed: set[str] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._sending: asyncio.Task[None] | None = None
        self._polling: asyncio.Task[None] | None = None

    async def page(
        self, request: ListSessions, visible: Sequence[str] | None, user: str | None = None
    ) -> ListSessionsReply:
        """A page of the list; `visible` names the sessions that the peer may see, None if it may see all.

        A user sees their own, too.
        """
        query = query_of(request)
        records = await self._records(query, visible, user)
        cursor = _cursor_of(records[-1]) if len(records) == query.limit else None
        return ListSessionsReply(tuple(summary_of(record) for record in records if _can_be_asked_for(record)), cursor)

    def watch(self, key: object, watcher: Watcher) -> None:
        """Tell this client of changes from now on; a second call with the same key replaces the first."""
        self._watchers[key] = watcher
        if self._polling is None:
            self._polling = asyncio.get_running_loop().create_task(self._poll())

    def unwatch(self, key: object) -> None:
        self._watchers.pop(key, None)
        if not self._watchers:
            self._stop()

    def observe(self, events: Sequence[Event]) -> None:
        """Note what was committed: a listener of all sessions."""
        if self._watchers and events:
            self._note(events[0].session_id)

    def note(self, session_id: str) -> None:
        """A session changed, perhaps in another process."""
        if self._watchers:
            self._note(session_id)

    def remove(self, session_id: str) -> None:
        """A session was deleted."""
        self._changed.discard(session_id)
        for watcher in self._watchers.values():
            watcher.remove(session_id, self._clock())

    async def _records(
        self, query: SessionQuery, visible: Sequence[str] | None, user: str | None
    ) -> list[SessionRecord]:
        if visible is None:
            return await self._log.find(query)
        own = await self._log.find(structs.replace(query, user=user)) if user is not None else []
        others = [await self._log.get(session_id) for session_id in visible]
        found = [*own, *(record for record in others if record and (user is None or record.user != user))]
        records = sorted(
            (record for record in found if query.matches(record)),
            key=lambda record: (-record.updated_at, record.session_id),
        )
        if query.after:
            used, session_id = query.after
            records = [it for it in records if (-it.updated_at, it.session_id) > (-used, session_id)]
        return records[: query.limit]

    def _note(self, session_id: str) -> None:
        self._changed.add(session_id)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(GATHER_SECONDS, self._flush)

    def _flush(self) -> None:
        self._timer = None
        changed, self._changed = self._changed, set()
        self._sending = asyncio.get_running_loop().create_task(self._send(changed))

    async def _send(self, changed: set[str]) -> None:
        for session_id in changed:
            record = await self._log.get(session_id)
            if record is not None:
                self._tell(record)
            else:
                self.remove(session_id)  # in another process

    def _tell(self, record: SessionRecord) -> None:
        if not _can_be_asked_for(record):
            return
        for watcher in list(self._watchers.values()):
            watcher.update(record, self._clock())

    async def _poll(self) -> None:
        while True:
            await asyncio.sleep(POLL_SECONDS)
            for record in await self._log.newest(POLLED):
                self._tell(record)

    def _stop(self) -> None:
        for waiting in (self._timer, self._sending, self._polling):
            if waiting is not None:
                waiting.cancel()
        self._timer = self._sending = self._polling = None
        self._changed.clear()


def query_of(request: WatchSessions) -> SessionQuery:
    after = _parse_cursor(request.cursor) if isinstance(request, ListSessions) and request.cursor else None
    words, archived = request.query or "", None if request.archived == "all" else request.archived
    return SessionQuery(request.limit, request.root_path, words, request.state, archived, after)


def _can_be_asked_for(record: SessionRecord) -> bool:
    """Whether a request can name the session: whatever else a log holds must not break the list."""
    return is_id(record.session_id, "sess")


def summary_of(record: SessionRecord) -> SessionSummary:
    facts = record.facts
    return SessionSummary(
        record.session_id,
        record.state,
        max(0, record.updated_at),
        record.repo,
        record.title,
        record.mode,
        record.last_seq,
        facts.archived,
        facts.cost_usd,
        facts.tokens,
        facts.context,
        facts.waiting,
        facts.parent,
        facts.agent,
    )


def _shown(row: SessionSummary) -> SessionSummary:
    """The row without what changes with every event."""
    return structs.replace(row, updated_at=0, last_seq=0)


def _row(row: SessionSummary) -> SessionRow:
    return SessionRow(*(getattr(row, name) for name in SessionSummary.__struct_fields__))


def _cursor_of(record: SessionRecord) -> str:
    return f"{record.updated_at}.{record.session_id}"


def _parse_cursor(cursor: str) -> tuple[int, str]:
    used, _, session_id = cursor.partition(".")
    with suppress(ValueError):
        return int(used), session_id
    raise ProtocolError("INVALID_REQUEST", "cursor is not one that list_sessions returned as nextCursor")
