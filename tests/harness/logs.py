"""Reading logs to their end."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from buddy.log.contract import Log
from buddy.log.postgres.postgres import PostgresLog
from buddy.log.sqlite import SqliteLog
from buddy.protocol.envelopes import Event
from buddy.sessions.spill import restore_spilled
from buddy.sessions.state import SessionFold

#: How far along something is: left out where a test compares what happened.
PROGRESS_TYPES = frozenset({"phase", "progress", "status"})


async def read_all(log: Log, session_id: str) -> list[Event]:
    """Every event of a session."""
    events: list[Event] = []
    while page := await log.read(session_id, events[-1].seq if events else 0):
        events += page
    return events


async def read_state_dir(state_dir: Path) -> dict[str, list[Event]]:
    """Every session's events, as they are on disk."""
    log = SqliteLog.open(state_dir, lambda: 0)
    try:
        return {record.session_id: await read_all(log, record.session_id) for record in await log.newest(1000)}
    finally:
        await log.close()


@asynccontextmanager
async def opened_log(url: str) -> AsyncGenerator[PostgresLog]:
    """A shared log, closed at the end."""
    log = await PostgresLog.open(url, lambda: 1)
    try:
        yield log
    finally:
        await log.close()


async def read_shared(url: str) -> dict[str, list[Event]]:
    """Every session's events in a shared log."""
    async with opened_log(url) as log:
        return {record.session_id: await read_all(log, record.session_id) for record in await log.newest(1000)}


async def refold(log: Log, events: Sequence[Event]) -> SessionFold:
    """A session's state according to its log alone."""

    async def read(blob: str) -> bytes | None:
        found = await log.read_blob(blob)
        return found[0] if found else None

    fold = SessionFold()
    for event in events:
        body = await restore_spilled(event, read)
        if body is not None:
            fold.apply(event, body)
    return fold


def types_of(events: Sequence[Event]) -> list[str]:
    """The types of these events, but for those that report progress."""
    return [event.type for event in events if event.type not in PROGRESS_TYPES]
