"""Requests between nodes: what the one that asked learns if no answer comes."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from buddy.cluster.postgres import PostgresPlacement
from buddy.cluster.requests import RemoteRequest, RemoteRequests, Unanswered
from buddy.cluster.turns import FleetTurns
from buddy.config.fleet import ClusterSettings, NodeSettings
from buddy.errors import ProtocolError
from buddy.log.postgres.postgres import PostgresLog
from tests.harness.postgres import Postgres
from tests.log.records import record

TTL_MS = 3000
SOON = 0.5
PATIENCE = 20.0


@pytest.fixture
async def log(postgres: Postgres) -> AsyncIterator[PostgresLog]:
    log = await PostgresLog.open(postgres.database(), lambda: 1)
    yield log
    await log.close()


@pytest.fixture
async def requests(log: PostgresLog) -> AsyncIterator[RemoteRequests]:
    """Those of a node that has the session `sess_1`; it asks itself."""
    placement = PostgresPlacement(log, "owner-a", "a", NodeSettings(name="a"), ClusterSettings())
    await placement.join()
    await log.create(record("sess_1"), "owner-a")
    made = RemoteRequests(log, placement, "owner-a", TTL_MS)
    yield made
    await made.close()
    await placement.leave()


def request(name: str) -> RemoteRequest:
    return RemoteRequest(name, "sess_1", b"{}")


async def test_what_nobody_began_is_withdrawn(requests: RemoteRequests) -> None:
    with pytest.raises(ProtocolError, match="no node could serve this in time") as caught:
        await requests.ask(request("one"), SOON)
    assert caught.value.retryable
    served: list[bytes] = []

    async def serve(body: bytes) -> bytes:
        served.append(body)
        return b"done"

    await requests.serve_waiting(serve)
    assert served == []


async def test_what_was_begun_may_have_been_done(requests: RemoteRequests) -> None:
    finish = asyncio.Event()

    async def serve(body: bytes) -> bytes:
        await finish.wait()
        return body

    asking = asyncio.ensure_future(requests.ask(request("one"), 4 * SOON))
    async with asyncio.timeout(PATIENCE):
        while not requests.is_serving:
            await requests.serve_waiting(serve)
            await asyncio.sleep(0.05)
    with pytest.raises(Unanswered):
        await asking
    finish.set()


async def test_turns_are_taken_one_after_the_other(log: PostgresLog, requests: RemoteRequests) -> None:
    here, there = FleetTurns(requests.channel), FleetTurns(requests.channel)
    inside: list[str] = []

    async def count(turns: FleetTurns, name: str) -> None:
        for _ in range(5):
            async with turns.take(name):
                inside.append(name)
                await asyncio.sleep(0.01)
                assert inside.count(name) == 1
                inside.remove(name)

    async with asyncio.timeout(PATIENCE):
        await asyncio.gather(count(here, "ann"), count(there, "ann"), count(there, "bob"))
    assert await log.reads.fetch("SELECT * FROM turns") == []
