"""Reads a session's log when it is opened: of complete runs, only the events with a lasting effect.

Invariants: the folds are the same as from the full log; each names the events that still affect it once their run is
complete. Since the last complete run, every event that is not transient is read.
"""

import asyncio
from collections.abc import Collection
from collections.abc import Set as AbstractSet

from buddy.log.contract import Log
from buddy.protocol.envelopes import Event
from buddy.protocol.events import LASTING, EventBody, events_where
from buddy.sessions.fork import Entry
from buddy.sessions.spill import restore_spilled
from buddy.sessions.state import SessionFold

PIECES = frozenset({"assistant_token", "thinking_token"})
KEPT_OPEN = events_where(lambda facts: not facts.transient)
ENDS_REPLY = events_where(lambda facts: facts.ends_reply)
PAGE = 500
NEAR = 10_000
"""How far back to look for the end of a run; if there is none, everything is read as part of an open run."""


class RecordedSession:
    """Created by `read_past`; use it immediately, while holding the session's lease."""

    def __init__(self, log: Log, session_id: str, over: int, left: list[Entry], since: list[Entry]) -> None:
        self._log = log
        self._session_id = session_id
        self._over = over
        self._left = left
        self._since = since

    def fold(self) -> SessionFold:
        fold = SessionFold()
        for event, body in [*self._left, *self._since]:
            if body is not None:
                fold.apply(event, body)
        return fold

    async def entries(self, types: AbstractSet[str]) -> list[Entry]:
        """The events of the open run, and from complete runs those of these types and the last `usage`."""
        if types <= LASTING:
            left = [entry for entry in self._left if entry[0].type in types or entry[0].type == "usage"]
        else:
            left = await read_entries(self._log, self._session_id, types=types, through=self._over)
        return [*left, *self._since]


async def read_past(log: Log, session_id: str, last_seq: int) -> RecordedSession:
    complete = await log.last(session_id, ("run_complete",), last_seq - NEAR)
    over = complete.seq if complete else 0
    left = await read_entries(log, session_id, types=LASTING, through=over)
    usage = await log.last(session_id, ("usage",)) if over else None
    if usage is not None and usage.seq <= over:
        left = sorted([*left, (usage, usage.body())], key=_seq)
    since = await _read_since(log, session_id, over) if over < last_seq else []
    return RecordedSession(log, session_id, over, left, since)


async def _read_since(log: Log, session_id: str, over: int) -> list[Entry]:
    since = await read_entries(log, session_id, over, types=KEPT_OPEN)
    settled = next((event.seq for event, _ in reversed(since) if event.type in ENDS_REPLY), over)
    piece = await log.last(session_id, PIECES, settled)  # whether a reply was under way
    return since if piece is None else sorted([*since, (piece, piece.body())], key=_seq)


async def read_entries(
    log: Log, session_id: str, after: int = 0, *, types: Collection[str] = (), through: int | None = None
) -> list[Entry]:
    """Every event, or those of some types, with its full body; None for a type this version does not know."""
    entries: list[Entry] = []
    while through is None or after < through:
        events = await log.read(session_id, after, PAGE, types)
        for event in events:
            if through is not None and event.seq > through:
                return entries
            body = event.body()
            entries.append((event, await _body(log, event) if body is not None and body.blobs else body))
        if len(events) < PAGE:
            break
        after = events[-1].seq
        await asyncio.sleep(0)  # others are served in between, however long the log is
    return entries


async def _body(log: Log, event: Event) -> EventBody | None:
    async def read(blob: str) -> bytes | None:
        found = await log.read_blob(blob)
        return found[0] if found else None

    return await restore_spilled(event, read)


def _seq(entry: Entry) -> int:
    return entry[0].seq
