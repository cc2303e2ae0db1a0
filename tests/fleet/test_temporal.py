"""Failures of Temporal itself, while it places sessions; those of nodes and databases are in the modules for both."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fleet.nodes import FleetOf
from tests.fleet.test_failures import taken_over
from tests.harness.clients import send
from tests.harness.postgres import Postgres
from tests.harness.processes import PATIENCE
from tests.harness.temporal import Temporal, settings

Outage = Callable[[Temporal], None]
OTHER_LOOPBACK = "127.0.0.9"


@pytest.mark.slow
async def test_a_session_with_work_has_a_workflow(tmp_path: Path, postgres: Postgres, temporal: Temporal) -> None:
    async with FleetOf(tmp_path, postgres, "a", "b", cluster=settings(temporal)) as fleet:
        client = await fleet.client("a")
        session_id = await fleet.start(client)
        await send(client, session_id, "drip")
        await wait_workflow(temporal, session_id, "Running")
        assert (await client.wait_for("run_complete"))["payload"]["outcome"] == "success"
        await wait_workflow(temporal, session_id, "Completed")
        # With the work ended, the session is the log's alone again.
        assert fleet.owner(session_id) == "a"
        assert await fleet.violations(session_id) == []


def start_empty(server: Temporal) -> None:
    """As after the loss of its disk: it knows nothing of any session."""
    for path in server.folder.glob("db*"):
        path.unlink()
    server.start()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fail", "recover"),
    [
        pytest.param(Temporal.kill, Temporal.start, id="crash"),
        pytest.param(Temporal.kill, start_empty, id="data-loss", marks=pytest.mark.long),
        pytest.param(Temporal.pause, Temporal.resume, id="pause", marks=pytest.mark.long),
    ],
)
async def test_without_temporal_runs_go_on_and_lost_ones_are_taken(
    fail: Outage, recover: Outage, tmp_path: Path, postgres: Postgres
) -> None:
    with Temporal() as server:
        async with FleetOf(tmp_path, postgres, "a", "b", cluster=settings(server)) as fleet:
            here, there = await fleet.client("a"), await fleet.client("b")
            lost, kept = await fleet.start(here), await fleet.start(there)
            for session_id in (lost, kept):
                await fleet.attach(there, session_id)
            await send(here, lost, "trickle")
            await send(there, kept, "trickle")
            await wait_workflow(server, lost, "Running")
            await wait_workflow(server, kept, "Running")
            fail(server)
            await fleet.wait_logged("b", "can't reach Temporal")
            # What is new works, too.
            other = await fleet.start(there)
            await send(there, other, "count")
            while (await there.wait_for("run_complete"))["sessionId"] != other:
                pass
            fleet.nodes["a"].kill()
            await taken_over(there, "b", "a")
            epochs = fleet.sql("SELECT string_agg(epoch::text, ',' ORDER BY key) FROM sessions")
            recover(server)
            await fleet.wait_logged("b", "connected to Temporal")
            done = {event["sessionId"] for event in there.events if event["type"] == "run_complete"}
            while not {lost, kept} <= done:
                done.add((await there.wait_for("run_complete"))["sessionId"])
            # Attempts that Temporal gave up meanwhile take nothing from a node that lives.
            assert fleet.sql("SELECT string_agg(epoch::text, ',' ORDER BY key) FROM sessions") == epochs
            # It places again.
            await send(there, kept, "drip")
            await wait_workflow(server, kept, "Running")
            await there.wait_for("run_complete")
            assert await fleet.violations(lost, kept, other, to_end=[there]) == []


async def wait_workflow(server: Temporal, session_id: str, status: str) -> None:
    async with asyncio.timeout(PATIENCE):
        while not any(session_id in line and status in line for line in await workflows(server)):  # noqa: ASYNC110 - another process has it
            await asyncio.sleep(0.1)


async def workflows(server: Temporal) -> list[str]:
    return (await asyncio.to_thread(server.run, "workflow", "list")).splitlines()


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0.0, pytest.param(4.0, marks=pytest.mark.long)], ids=["at-once", "later"])
async def test_a_node_hands_over_and_ends_while_temporal_does_not_answer(
    seconds: float, tmp_path: Path, postgres: Postgres
) -> None:
    with Temporal() as server:
        async with FleetOf(tmp_path, postgres, "a", "b", cluster=settings(server)) as fleet:
            _, there, session_id = await fleet.stream()
            await wait_workflow(server, session_id, "Running")
            server.pause()
            await asyncio.sleep(seconds)  # before or after it is noticed
            assert await asyncio.to_thread(fleet.nodes["a"].stop) == 0
            await taken_over(there, "b", "a")
            assert (await there.wait_for("run_complete"))["payload"]["outcome"] == "success"
            assert await asyncio.to_thread(fleet.nodes["b"].stop) == 0
            assert await fleet.violations(session_id) == []


@pytest.mark.slow
@pytest.mark.long
async def test_a_temporal_that_answers_and_places_nothing_loses_nothing(tmp_path: Path, postgres: Postgres) -> None:
    # It says that it is well, but its parts look for each other at 127.0.0.1, and no task reaches a node.
    with Temporal(OTHER_LOOPBACK, ip=OTHER_LOOPBACK) as server:
        await lose_a_node(FleetOf(tmp_path, postgres, "a", "b", cluster=settings(server)))


@pytest.mark.slow
@pytest.mark.long
async def test_a_slow_temporal_loses_nothing(tmp_path: Path, postgres: Postgres) -> None:
    with Temporal() as server:
        slow = asyncio.create_task(slow_down(server))
        try:
            await lose_a_node(FleetOf(tmp_path, postgres, "a", "b", cluster=settings(server)))
        finally:
            slow.cancel()
            await asyncio.wait([slow])


async def slow_down(server: Temporal) -> None:
    """Let it work for a tenth of the time."""
    try:
        while True:
            server.pause()
            await asyncio.sleep(0.9)
            server.resume()
            await asyncio.sleep(0.1)
    finally:
        server.resume()


async def lose_a_node(fleet: FleetOf) -> None:
    """A node is killed under a run, and another one drained under the next."""
    async with fleet:
        _, there, session_id = await fleet.stream()
        fleet.nodes["a"].kill()
        await taken_over(there, "b", "a")
        assert (await there.wait_for("run_complete"))["payload"]["outcome"] == "success"
        fleet.restart("a")
        again = await fleet.client("a")
        await fleet.attach(again, session_id)
        run_id = await send(there, session_id, "trickle")
        await again.ask("drain_node", {"node": "b"})
        await fleet.wait_state(again, "b", "drained")
        while (await again.wait_for("run_complete"))["runId"] != run_id:
            pass  # that of the run before
        assert fleet.owner(session_id) == "a"
        assert await fleet.violations(session_id, to_end=[again]) == []
