"""Placement by Temporal: the same failures as with PostgreSQL's, and those of Temporal itself."""

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.fleet import test_database as database
from tests.fleet import test_failures as failures
from tests.fleet import test_upgrade as upgrade
from tests.fleet.nodes import FleetOf
from tests.harness.clients import send
from tests.harness.postgres import Postgres
from tests.harness.temporal import Temporal

PATIENCE = 60.0
Scenario = Callable[[Path, Postgres], Awaitable[None]]
SCENARIOS: list[Scenario] = [
    failures.test_a_killed_node_loses_its_runs_to_another,
    failures.test_a_paused_node_does_nothing_more_when_it_wakes,
    failures.test_a_drained_node_hands_over,
]
MORE: list[Scenario] = [
    failures.test_a_node_that_is_paused_before_a_start_never_starts_it,
    failures.test_a_stopped_node_hands_over_and_comes_back,
    failures.test_an_approval_expires_although_no_node_has_its_session,
    database.test_killed_connections_lose_nothing,
    upgrade.test_nodes_are_upgraded_one_after_the_other,
    failures.test_a_client_of_a_dead_gateway_goes_on_at_another,
    failures.test_a_session_on_a_nodes_own_machine_fails_with_it,
    failures.test_a_session_on_a_nodes_own_machine_waits_for_it,
]


def settings(server: Temporal) -> str:
    """What is added to [cluster], with a task queue of its own."""
    place = f'address = "{server.address}"\ntask_queue = "buddy-{uuid.uuid4().hex[:8]}"\n'
    return f'placement = "temporal"\n[cluster.temporal]\n{place}'


@pytest.mark.parametrize(
    "scenario",
    [*SCENARIOS, *(pytest.param(one, marks=pytest.mark.long) for one in MORE)],
    ids=lambda scenario: scenario.__name__.removeprefix("test_"),
)
async def test_with_temporal(
    scenario: Scenario, tmp_path: Path, postgres: Postgres, temporal: Temporal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FleetOf, "cluster", settings(temporal))
    await scenario(tmp_path, postgres)


async def test_a_session_with_work_has_a_workflow(
    tmp_path: Path, postgres: Postgres, temporal: Temporal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FleetOf, "cluster", settings(temporal))
    async with FleetOf(tmp_path, postgres, "a", "b") as fleet:
        client = await fleet.client("a")
        session_id = await fleet.start(client)
        await send(client, session_id, "drip")
        await wait_workflow(temporal, session_id, "Running")
        assert (await client.wait_for("run_complete"))["payload"]["outcome"] == "success"
        await wait_workflow(temporal, session_id, "Completed")
        # With the work ended, the session is the log's alone again.
        assert fleet.owner(session_id) == "a"
        assert await fleet.violations(session_id) == []


async def test_without_temporal_runs_go_on_and_lost_ones_are_taken(
    tmp_path: Path, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Temporal() as server:
        monkeypatch.setattr(FleetOf, "cluster", settings(server))
        async with FleetOf(tmp_path, postgres, "a", "b") as fleet:
            here, there = await fleet.client("a"), await fleet.client("b")
            lost, kept = await fleet.start(here), await fleet.start(there)
            for session_id in (lost, kept):
                await fleet.attach(there, session_id)
            await send(here, lost, "drip")
            await send(there, kept, "drip")
            await wait_workflow(server, lost, "Running")
            await wait_workflow(server, kept, "Running")
            server.kill()
            await wait_logged(fleet, "b", "can't reach Temporal")
            # What is new works, too.
            other = await fleet.start(there)
            await send(there, other, "count")
            while (await there.wait_for("run_complete"))["sessionId"] != other:
                pass
            fleet.nodes["a"].kill()
            await failures.taken_over(there, "b", "a")
            epochs = fleet.sql("SELECT string_agg(epoch::text, ',' ORDER BY key) FROM sessions")
            server.start()
            await wait_logged(fleet, "b", "connected to Temporal")
            done = {event["sessionId"] for event in there.events if event["type"] == "run_complete"}
            while not {lost, kept} <= done:
                done.add((await there.wait_for("run_complete"))["sessionId"])
            # Attempts that Temporal gave up meanwhile take nothing from a node that lives.
            assert fleet.sql("SELECT string_agg(epoch::text, ',' ORDER BY key) FROM sessions") == epochs
            assert await fleet.violations(lost, kept, other, to_end=[there]) == []


async def wait_workflow(server: Temporal, session_id: str, status: str) -> None:
    async with asyncio.timeout(PATIENCE):
        while not any(session_id in line and status in line for line in await workflows(server)):  # noqa: ASYNC110 - another process has it
            await asyncio.sleep(0.1)


async def workflows(server: Temporal) -> list[str]:
    return (await asyncio.to_thread(server.run, "workflow", "list")).splitlines()


async def wait_logged(fleet: FleetOf, name: str, text: str) -> None:
    async with asyncio.timeout(PATIENCE):
        while text not in fleet.nodes[name].log():  # noqa: ASYNC110 - another process writes it
            await asyncio.sleep(0.1)
