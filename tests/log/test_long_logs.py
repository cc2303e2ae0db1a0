"""A log of many events is searched a part at a time."""

import asyncio
from pathlib import Path
from unittest.mock import patch

from buddy.log.contract import Batch
from buddy.log.sqlite import SqliteLog
from buddy.protocol.envelopes import event_of
from buddy.protocol.events import ApprovalExpired
from tests.harness.clock import ManualClock
from tests.log.records import SESSION, record, seqs, tokens


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
