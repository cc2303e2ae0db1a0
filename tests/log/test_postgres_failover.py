"""The server of a shared log dies, and its synchronous standby takes over: a pause, not a loss."""

import asyncio
from collections.abc import Callable

from buddy.log.contract import Lease
from tests.harness.logs import opened_log, read_all
from tests.harness.postgres import Postgres, url_of_both
from tests.log.records import batch, seqs, started

PATIENCE = 60.0
SESSIONS = 10


async def test_nothing_acknowledged_is_lost_when_the_standby_takes_over() -> None:
    with Postgres() as primary:
        name = primary.database().rpartition("/")[2]
        standby = await asyncio.to_thread(primary.add_standby)
        with_both = url_of_both(primary, standby, name)
        acknowledged: dict[str, int] = {}
        stop = asyncio.Event()
        try:
            async with opened_log(with_both) as log:
                leases = [await started(log, f"sess_{number}") for number in range(SESSIONS)]

                async def work(lease: Lease) -> None:
                    while not stop.is_set():
                        seq = acknowledged.get(lease.session_id, 0)
                        acknowledged[lease.session_id] = await log.append(batch(lease, seq))

                async with asyncio.TaskGroup() as group:
                    for lease in leases:
                        group.create_task(work(lease))
                    await wait_until(lambda: sum(acknowledged.values()) > 300)
                    await asyncio.to_thread(primary.kill)
                    before = sum(acknowledged.values())
                    await asyncio.to_thread(standby.promote)
                    await wait_until(lambda: sum(acknowledged.values()) > before + 300)
                    stop.set()
                for session_id, last_seq in acknowledged.items():
                    events = await read_all(log, session_id)
                    assert seqs(events) == list(range(1, last_seq + 1))
                    expected = batch(Lease(session_id, 1, ""), 0, last_seq).events
                    assert [event.line() for event in events] == [event.line() for event in expected]
        finally:
            standby.remove()


async def wait_until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110 - what it waits for sets no event
            await asyncio.sleep(0.01)
