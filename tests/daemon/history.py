"""A session with a long history, written directly into the log before the daemon starts."""

import time
from pathlib import Path

from buddy.log.contract import Batch, SessionRecord
from buddy.log.owners import this_owner
from buddy.log.sqlite import SqliteLog
from buddy.protocol.envelopes import Event, event_of
from buddy.protocol.events import AssistantToken, EventBody, SessionStarted
from buddy.protocol.ids import Ulids
from buddy.protocol.shapes import Repo

AT_ONCE = 1000


def now_ms() -> int:
    return time.time_ns() // 1_000_000


async def write_history(state_dir: Path, workspace: Path, count: int, size: int = 100) -> str:
    """A session of `count` events with texts of `size` characters; returns its id."""
    session_id, repo = Ulids()("sess"), Repo(str(workspace))
    log = SqliteLog.open(state_dir, now_ms)
    try:
        record = SessionRecord(session_id, repo, "interactive", "idle", now_ms(), now_ms(), 1, 0)
        lease = await log.create(record, this_owner())
        for after in range(0, count, AT_ONCE):
            events = [make(session_id, seq, repo, size) for seq in range(after + 1, min(after + AT_ONCE, count) + 1)]
            await log.append(Batch(session_id, lease.epoch, after, events))
        await log.release(lease)
    finally:
        await log.close()
    return session_id


def make(session_id: str, seq: int, repo: Repo, size: int) -> Event:
    body: EventBody = AssistantToken(text=f"{seq} ".ljust(size, "x"))
    if seq == 1:
        body = SessionStarted(
            session_id=session_id,
            state="idle",
            mode="interactive",
            provider="default",
            sandbox_provider="local",
            repo=repo,
        )
    run_id = None if seq == 1 else "run_seeded"
    return event_of(body, session_id=session_id, seq=seq, ts=now_ms(), run_id=run_id)
