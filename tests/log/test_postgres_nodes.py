"""Several nodes on one log in PostgreSQL: hints, leases, and what a node learns of the others."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from buddy.errors import Fenced, SeqConflict
from buddy.log.contract import Lease
from buddy.log.postgres.connections import Channel
from buddy.log.postgres.driver import Row
from buddy.log.postgres.postgres import PostgresLog
from tests.harness.logs import opened_log
from tests.harness.postgres import Postgres
from tests.log.records import SESSION, batch, changed, seqs, started

PATIENCE = 60.0


async def test_a_reader_on_another_node_is_woken_by_an_append(postgres: Postgres) -> None:
    url = postgres.database()
    async with opened_log(url) as writer, opened_log(url) as reader:
        lease = await started(writer)
        for seq in range(20):
            async with asyncio.TaskGroup() as group:
                waiting = group.create_task(reader.wait(SESSION, seq, PATIENCE))
                await asyncio.sleep(0)
                group.create_task(as_task(writer.append(batch(lease, seq))))
            assert waiting.result()
            assert seqs(await reader.read(SESSION, seq)) == [seq + 1]


async def as_task(future: "asyncio.Future[int]") -> int:
    return await future


async def test_hints_are_repaired_by_a_poll(postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> None:
    url = postgres.database()
    async with opened_log(url) as writer, opened_log(url) as reader:
        lease = await started(writer)
        monkeypatch.setattr(Channel, "fetch", without_notifications(Channel.fetch))
        assert not await reader.wait(SESSION, 0, 0.1)
        await writer.append(batch(lease, 0))
        assert await reader.wait(SESSION, 0, PATIENCE)


Fetch = Callable[..., Coroutine[Any, Any, list[Row]]]


def without_notifications(original: Fetch) -> Fetch:
    async def fetch(channel: Channel, sql: str, *args: object, timeout: float = PATIENCE) -> list[Row]:
        return [] if "pg_notify" in sql else await original(channel, sql, *args, timeout=timeout)

    return fetch


async def test_the_listener_comes_back_when_its_connection_is_ended(postgres: Postgres) -> None:
    url = postgres.database()
    async with opened_log(url) as writer, opened_log(url) as reader:
        lease = await started(writer)
        assert not await reader.wait(SESSION, 0, 0.1)
        postgres.end_connections(url)
        await writer.append(batch(lease, 0))
        assert await reader.wait(SESSION, 0, PATIENCE)


async def test_subscribers_learn_of_inboxes_and_growth(postgres: Postgres) -> None:
    url = postgres.database()
    async with opened_log(url) as sender, opened_log(url) as other:
        lease = await started(sender)
        heard: list[tuple[str, bool]] = []
        other.hints.subscribe(lambda session_id, is_inbox: heard.append((session_id, is_inbox)))
        async with asyncio.timeout(PATIENCE):
            while (SESSION, True) not in heard:  # the first may be sent before the other one listens
                await sender.put(SESSION, f"key-{len(heard)}-{asyncio.get_running_loop().time()}", "m", b"", 10_000)
                await asyncio.sleep(0.02)
        await sender.append(batch(lease, 0))
        await wait_until(lambda: (SESSION, False) in heard)


async def test_one_of_two_nodes_that_race_for_a_session_gets_it(postgres: Postgres) -> None:
    url = postgres.database()
    async with opened_log(url) as first, opened_log(url) as second:
        await first.release(await started(first))
        leases = await asyncio.gather(first.acquire(SESSION, "one"), second.acquire(SESSION, "two"))
        winners = [(log, lease) for log, lease in zip((first, second), leases, strict=True) if lease]
        assert [lease.epoch for _, lease in winners] == [2]
        assert await winners[0][0].append(batch(winners[0][1], 0)) == 1
        loser = second if winners[0][0] is first else first
        with pytest.raises(Fenced):
            await loser.append(batch(Lease(SESSION, 1, "late"), 1))
        with pytest.raises(SeqConflict):
            await loser.append(batch(winners[0][1], 0))


async def test_every_put_raises_the_counter_of_its_session(shared: PostgresLog) -> None:
    lease = await started(shared)
    await shared.put(SESSION, "a", "message", b"{}", 10)
    await shared.put(SESSION, "b", "message", b"{}", 10)
    await shared.append(changed(batch(lease, 0), taken=(1,)))
    ((wakes,),) = await shared.reads.fetch("SELECT wakes FROM sessions WHERE id = $1", SESSION)
    assert wakes == 2


async def wait_until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110 - what it waits for sets no event
            await asyncio.sleep(0.01)
