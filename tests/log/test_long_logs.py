"""A log of many events is searched, pruned and deleted a part at a time."""

import asyncio
from pathlib import Path
from unittest.mock import patch

import pytest

from buddy.errors import Fenced
from buddy.log import rows
from buddy.log.contract import Batch
from buddy.log.sqlite import SqliteLog
from buddy.protocol.envelopes import event_of
from buddy.protocol.events import ApprovalExpired
from tests.harness.clock import ManualClock
from tests.log.records import SESSION, batch, record, seqs, tokens


async def test_a_search_for_types_lets_others_run_between_parts(state_dir: Path, clock: ManualClock) -> None:
    log = SqliteLog.open(state_dir, clock)
    lease = await log.create(record(), "owner")
    rare = [event_of(ApprovalExpired(approval_id="appr_1"), session_id=SESSION, seq=seq, ts=1) for seq in (10, 31)]
    events = tokens(1, 50)
    for event in rare:
        events[event.seq - 1] = event
    await log.append(Batch(SESSION, lease.epoch, 0, events))
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(count())
    with patch("buddy.log.sqlite.WINDOW", 5):
        assert await log.read(SESSION, 0, types={"approval_expired"}) == rare
        assert turns >= 9
        assert await log.read(SESSION, 10, 1, types={"approval_expired"}) == rare[1:]
        assert await log.read(SESSION, 0, types={"approval_expired"}, through=30) == rare[:1]
        assert seqs(await log.read(SESSION, 28, 7, types={"assistant_token"})) == [29, 30, 32, 33, 34, 35, 36]
        assert await log.last(SESSION, {"approval_expired"}) == rare[1]
        assert await log.last(SESSION, {"approval_expired"}, 0, 30) == rare[0]
        assert await log.last(SESSION, {"approval_expired"}, 31) is None
        turns = 0
        assert await log.last(SESSION, {"usage"}) is None
        assert turns >= 9
    other.cancel()
    await log.close()


async def test_a_long_session_is_deleted_in_parts_and_gone_from_the_first(
    state_dir: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "PART", 10)
    log = SqliteLog.open(state_dir, clock)
    lease = await log.create(record(), "owner")
    await log.append(batch(lease, 0, 35))
    deleting = asyncio.ensure_future(log.delete(SESSION, lease.epoch))
    seen: list[str] = []
    while not deleting.done():
        await asyncio.sleep(0)
        seen += await log.incomplete()
    assert seen and await deleting
    assert await log.incomplete() == [] and await log.get(SESSION) is None
    await log.close()


async def test_what_is_left_of_a_deletion_is_deleted_later(state_dir: Path, clock: ManualClock) -> None:
    log = SqliteLog.open(state_dir, clock)
    lease = await log.create(record(), "owner")
    await log.append(batch(lease, 0, 2 * rows.PART))
    deleting = asyncio.ensure_future(log.delete(SESSION, lease.epoch))
    while not await log.incomplete():  # noqa: ASYNC110 - a thread writes it
        await asyncio.sleep(0)
    deleting.cancel()
    assert await log.get(SESSION) is None and await log.newest(10) == []
    with pytest.raises(Fenced):
        await log.append(Batch(SESSION, lease.epoch, 2 * rows.PART, []))
    again = await log.acquire(SESSION, "owner")
    assert again is not None and await log.delete(SESSION, again.epoch)
    assert await log.incomplete() == []
    await log.close()


async def test_a_long_log_is_pruned_in_parts(
    state_dir: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "PART", 10)
    log = SqliteLog.open(state_dir, clock)
    lease = await log.create(record(), "owner")
    await log.append(batch(lease, 0, 35))
    assert [await log.prune(lease, seq) for seq in (1, 3, 13, 34, 10, 90)] == [1, 3, 13, 34, 34, 36]
    await log.close()
