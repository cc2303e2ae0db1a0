"""A node whose process ended is lost as soon as its connection is; one whose connection was cut is not."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

import pytest

from buddy.cluster import statements as sql
from buddy.cluster.contract import Load
from buddy.cluster.postgres import PostgresPlacement
from buddy.config.fleet import ClusterSettings, NodeSettings
from buddy.log.postgres.connections import Channel
from buddy.log.postgres.postgres import PostgresLog
from tests.harness.postgres import Postgres
from tests.log.records import batch, changed, record

Found = TypeVar("Found")

TTL = 9.0
PATIENCE = 60.0
SOON = 0.2
_AGE = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint - seen FROM nodes WHERE name = 'dead'"
_END = "SELECT pg_terminate_backend(pid) FROM nodes"
_PID = "SELECT pid FROM nodes WHERE name = 'judge'"


class Judge:
    """A node that has just joined, and one that dies: both on one log."""

    def __init__(self, log: PostgresLog) -> None:
        self.log = log
        cluster = ClusterSettings(lease_seconds=TTL)
        self.node = PostgresPlacement(log, "owner-judge", "judge", NodeSettings(name="judge"), cluster)
        self.other = Channel(log.server, durable=False)

    async def start(self) -> None:
        """The other node has beaten since the connection of this one was opened, and has a session with a run."""
        await self.node.join()
        await self.other.repeat(sql.BEAT, "owner-dead", round(TTL * 1000), "dead", "0", True, True, [], 1, 1)
        lease = await self.log.create(record("sess_1"), "owner-dead")
        await self.log.append(changed(batch(lease, 0), state="running"))

    async def ask(self, question: str) -> int:
        ((answer,),) = await self.log.reads.fetch(question)
        return answer

    async def take(self) -> list[str]:
        await self.node.beat(Load())
        return [one.lease.session_id for one in await self.node.take(10)]

    async def is_dead_listed_as_lost(self) -> bool:
        return any(one.state == "lost" for one in await self.node.nodes() if one.name == "dead")


async def eventually(look: Callable[[], Awaitable[Found]], is_enough: Callable[[Found], bool]) -> Found:
    async with asyncio.timeout(PATIENCE):
        while not is_enough(found := await look()):  # noqa: ASYNC110 - the database's clock goes on
            await asyncio.sleep(SOON)
    return found


@pytest.fixture
async def judge(postgres: Postgres) -> AsyncIterator[Judge]:
    log = await PostgresLog.open(postgres.database(), lambda: 1)
    judge = Judge(log)
    await judge.start()
    yield judge
    await judge.node.leave()
    await judge.other.close()
    await log.close()


async def test_what_ended_is_lost_before_its_lease_also_for_a_node_that_has_just_joined(judge: Judge) -> None:
    assert await judge.take() == []
    await judge.other.close()
    assert await eventually(judge.take, bool) == ["sess_1"]
    assert not await judge.is_dead_listed_as_lost()


async def test_nobody_is_lost_because_the_server_closed_all_connections(judge: Judge) -> None:
    await judge.log.reads.fetch(_END)
    assert await eventually(judge.take, lambda _: True) == []

    async def ages() -> int:
        assert await judge.take() == [] or await judge.is_dead_listed_as_lost()
        return await judge.ask(_AGE)

    await eventually(ages, lambda age: age > TTL * 1000 / 2)
    # It lives, and beats again with its next connection.
    await judge.other.repeat(sql.BEAT, "owner-dead", round(TTL * 1000), "dead", "0", True, True, [], 1, 1)
    assert await judge.take() == []


async def test_a_node_whose_connection_was_closed_beats_with_a_new_one_by_itself(judge: Judge) -> None:
    before = await judge.ask(_PID)
    await judge.log.reads.fetch(f"{_END} WHERE name = 'judge'")
    await eventually(lambda: judge.ask(_PID), lambda pid: pid != before)
