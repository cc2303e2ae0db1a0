"""The writer of the SQLite log: one of the loop and its thread has the connection at a time, and both erase."""

import asyncio
from pathlib import Path

import pytest

from buddy.log import writer
from buddy.log.contract import Batch
from buddy.log.schema import open_database
from buddy.log.sqlite import SqliteLog
from buddy.protocol.envelopes import event_of
from buddy.protocol.events import AssistantToken
from tests.harness.logs import read_all
from tests.harness.processes import wait_until
from tests.log.records import SESSION, batch, record, seqs


async def test_prunes_and_deletions_wait_for_appends_and_appends_for_them(sqlite: SqliteLog) -> None:
    lease = await sqlite.create(record(), "owner")

    async def append() -> None:
        for seq in range(200):
            assert await sqlite.append(batch(lease, seq)) == seq + 1

    async def start_and_delete(name: str) -> None:
        for number in range(20):
            started = await sqlite.create(record(f"{name}{number}"), "owner")
            await sqlite.append(batch(started, 0, 3, durable=True))
            assert await sqlite.prune(started, 3) == 3
            assert await sqlite.delete(started.session_id, started.epoch)

    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        group.create_task(append())
        for name in ("sess_a", "sess_b", "sess_c"):
            group.create_task(start_and_delete(name))
    assert seqs(await read_all(sqlite, SESSION)) == list(range(1, 201))


async def test_what_was_deleted_while_somebody_read_is_erased_afterwards(
    sqlite: SqliteLog, state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "ERASE_AGAIN_SECONDS", 0.01)
    lease = await sqlite.create(record(), "owner")
    events = [event_of(AssistantToken(text="forgettable"), session_id=SESSION, seq=1, ts=1)]
    await sqlite.append(Batch(SESSION, lease.epoch, 0, events))
    reader = open_database(state_dir / "buddy.db")
    reader.execute("BEGIN")
    assert reader.execute("SELECT count(*) FROM events").get == 1
    assert await sqlite.delete(SESSION, lease.epoch)
    for _ in range(2):  # the first one may come before erasing is tried, the second one waits for it
        await sqlite.renew("owner")
    wal = state_dir / "buddy.db-wal"
    assert b"forgettable" in wal.read_bytes()
    reader.execute("COMMIT")
    reader.close()
    await asyncio.to_thread(wait_until, lambda: b"forgettable" not in wal.read_bytes(), "the text to be erased")
    assert b"forgettable" not in (state_dir / "buddy.db").read_bytes()
