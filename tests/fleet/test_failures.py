"""Nodes that die, stop, hand over or lose the database: what is left is sound, and somebody continues.

Each scenario ends with the offline checker over the shared log, what every client received, and the ledger that the
executed commands wrote themselves.
"""

import asyncio
import signal
import time
from pathlib import Path

import pytest

from tests.fleet.nodes import FleetOf, refusal
from tests.harness.clients import decide, send
from tests.harness.postgres import Postgres
from tests.harness.wire_client import ErrorResponse, WireClient

pytestmark = pytest.mark.usefixtures("placement")

PATIENCE = 60.0


async def taken_over(client: WireClient, by: str, of: str) -> None:
    found = await client.wait_for("recovery", lambda body: body["action"] == "taken_over")
    assert found["payload"]["fromNode"] == of
    again = [event for event in client.events if event["type"] == "run_started" and event["payload"].get("recovered")]
    assert again[-1]["payload"]["node"] == by


@pytest.mark.slow
async def test_a_killed_node_loses_its_runs_to_another(tmp_path: Path, postgres: Postgres) -> None:
    async with FleetOf(tmp_path, postgres, "a", "b") as fleet:
        here, there = await fleet.client("a"), await fleet.client("b")
        streaming, calling = await fleet.start(here), await fleet.start(here, approvalPolicy="all")
        for session_id in (streaming, calling):
            await fleet.attach(there, session_id)
        await send(here, streaming, "drip")
        await there.wait_for("assistant_token")
        await send(here, calling, "slow")
        await fleet.wait_ledger(1)
        fleet.nodes["a"].kill()
        began = time.monotonic()
        await taken_over(there, "b", "a")
        print(f"taken over after {time.monotonic() - began:.2f} s")  # noqa: T201 - the figure is the point
        # The call that was cut off has an unknown outcome, and nothing of it is left.
        result = await there.wait_for("tool_result", lambda body: body["isError"])
        assert result["payload"]["structuredError"]["type"] == "UNKNOWN_OUTCOME"
        done = {(await there.wait_for("run_complete"))["sessionId"] for _ in range(2)}
        assert done == {streaming, calling}
        assert {fleet.owner(session_id) for session_id in done} == {"b"}
        await send(there, calling, "count")
        await there.wait_for("run_complete")
        assert len(fleet.ledger.read_text().split()) == 1
        assert await fleet.violations(streaming, calling, to_end=[there]) == []


@pytest.mark.slow
async def test_a_paused_node_does_nothing_more_when_it_wakes(tmp_path: Path, postgres: Postgres) -> None:
    async with FleetOf(tmp_path, postgres, "a", "b") as fleet:
        here, there, session_id = await fleet.stream()
        fleet.nodes["a"].signal(signal.SIGSTOP)
        await taken_over(there, "b", "a")
        fleet.nodes["a"].signal(signal.SIGCONT)
        assert (await there.wait_for("run_complete"))["payload"]["outcome"] == "success"
        await send(there, session_id, "twice")
        assert (await there.wait_for("run_complete"))["payload"]["outcome"] == "success"
        # Its client is still connected, receives everything, and may go on.
        await here.wait_for("run_complete")
        await send(here, session_id, "count")
        await there.wait_for("run_complete")
        assert fleet.owner(session_id) == "b"
        assert await fleet.violations(session_id, to_end=[there]) == []


@pytest.mark.slow
async def test_a_node_that_is_paused_before_a_start_never_starts_it(tmp_path: Path, postgres: Postgres) -> None:
    fleet = FleetOf(tmp_path, postgres, "a", "b")
    fleet.faults["a"] = "tool.start.before:1:stop"  # after the claim is committed
    async with fleet:
        here, there = await fleet.client("a"), await fleet.client("b")
        session_id = await fleet.start(here, approvalPolicy="all")
        await fleet.attach(there, session_id)
        await send(here, session_id, "make it")
        await there.wait_for("tool_claimed")
        await taken_over(there, "b", "a")
        result = await there.wait_for("tool_result")
        assert result["payload"]["structuredError"]["type"] == "UNKNOWN_OUTCOME"
        await there.wait_for("run_complete")
        fleet.nodes["a"].signal(signal.SIGCONT)
        await here.wait_for("run_complete")
        await send(here, session_id, "make it")
        await there.wait_for("run_complete")
        assert len(fleet.ledger.read_text().split()) == 1
        assert await fleet.violations(session_id) == []


@pytest.mark.slow
async def test_a_drained_node_hands_over(tmp_path: Path, postgres: Postgres) -> None:
    async with FleetOf(tmp_path, postgres, "a", "b") as fleet:
        here, there = await fleet.client("a"), await fleet.client("b")
        streaming, asking, idle = [await fleet.start(here) for _ in range(3)]
        for session_id in (streaming, asking, idle):
            await fleet.attach(there, session_id)
        await send(here, streaming, "drip")
        await send(here, asking, "make it")
        asked = await there.wait_for("approval_required")
        await there.wait_for("assistant_token")
        await there.ask("drain_node", {"node": "a"})
        seconds = await fleet.wait_state(there, "a", "drained")
        await taken_over(there, "b", "a")
        print(f"drained after {seconds:.2f} s")  # noqa: T201 - the figure is the point
        assert fleet.owner(streaming) == "b"
        # What waits for a person needs no node, until somebody decides, here through the drained one.
        assert fleet.owner(asking) == ""
        await decide(here, asked)
        async with asyncio.timeout(PATIENCE):
            while {streaming, asking} - {e["sessionId"] for e in there.events if e["type"] == "run_complete"}:
                await there.receive()
        # The drained node is a gateway: it starts sessions elsewhere, and may be stopped.
        other = await fleet.start(here)
        await send(here, other, "count")
        while (await here.wait_for("run_complete"))["sessionId"] != other:
            pass  # those of the runs before
        assert fleet.owner(other) == "b"
        again = await asyncio.to_thread(fleet.nodes["a"].run, "node", "drain", "a")
        assert (again.code, again.err) == (0, "a has handed over its sessions\n")
        assert fleet.nodes["a"].stop() == 0
        assert await fleet.violations(streaming, asking, idle, other) == []


@pytest.mark.slow
async def test_a_stopped_node_hands_over_and_comes_back(tmp_path: Path, postgres: Postgres) -> None:
    async with FleetOf(tmp_path, postgres, "a", "b") as fleet:
        here, there = await fleet.client("a"), await fleet.client("b")
        session_id = await fleet.start(here)
        await fleet.attach(there, session_id)
        await send(here, session_id, "drip")
        await there.wait_for("assistant_token")
        assert fleet.nodes["a"].stop() == 0
        await taken_over(there, "b", "a")
        await fleet.wait_state(there, "a", "stopped")
        fleet.restart("a")
        again = await fleet.client("a")
        await fleet.attach(again, session_id)
        assert (await again.wait_for("run_complete"))["payload"]["outcome"] == "success"
        await send(again, session_id, "count")
        await again.wait_for("run_complete")
        await there.wait_for("run_complete")
        assert await fleet.violations(session_id) == []


@pytest.mark.slow
async def test_an_approval_expires_although_no_node_has_its_session(tmp_path: Path, postgres: Postgres) -> None:
    more = "[agent]\napproval_timeout_seconds = 4\n"
    fleet = FleetOf(tmp_path, postgres, "a", "b")
    for daemon in fleet.nodes.values():
        text = daemon.config.read_text().replace("[agent]\n", more)
        daemon.config.write_text(text)
    async with fleet:
        here, there = await fleet.client("a"), await fleet.client("b")
        session_id = await fleet.start(here)
        await fleet.attach(there, session_id)
        await send(here, session_id, "make it")
        asked = await there.wait_for("approval_required")
        await there.ask("drain_node", {"node": "a"})
        await fleet.wait_state(there, "a", "drained")
        assert fleet.owner(session_id) == ""
        await there.wait_for("approval_expired")
        assert (await there.wait_for("run_complete"))["payload"]["outcome"] == "denied"
        late = {"sessionId": session_id, "runId": asked["runId"], "decision": "approve"}
        late["approvalId"] = asked["payload"]["approvalId"]
        assert (await refusal(there, "submit_approval", late, session_id)).code in (
            "APPROVAL_EXPIRED",
            "APPROVAL_NOT_FOUND",
        )
        assert fleet.ledger.read_text() == ""
        assert await fleet.violations(session_id) == []


@pytest.mark.slow
async def test_a_client_of_a_dead_gateway_goes_on_at_another(tmp_path: Path, postgres: Postgres) -> None:
    async with FleetOf(tmp_path, postgres, "a", "b", "c") as fleet:
        here, there = await fleet.client("a"), await fleet.client("b")
        session_id = await fleet.start(here, approvalPolicy="all")
        await fleet.attach(there, session_id)
        run_id = await send(there, session_id, "drip", "msg_once")
        await there.wait_for("assistant_token")
        fleet.nodes["b"].kill()
        await there.ended()
        seen = max(event["seq"] for event in there.events)
        other = await fleet.client("c")
        await fleet.attach(other, session_id, seen)
        assert await send(other, session_id, "drip", "msg_once") == run_id
        await other.wait_for("run_complete")
        await here.wait_for("run_complete")
        assert fleet.owner(session_id) == "a"
        assert await fleet.violations(session_id, to_end=[other]) == []


@pytest.mark.slow
async def test_a_session_on_a_nodes_own_machine_fails_with_it(tmp_path: Path, postgres: Postgres) -> None:
    async with FleetOf(tmp_path, postgres, "a", "b", more="[cluster]\nlost_node_seconds = 2\n") as fleet:
        here, there = await fleet.client("a"), await fleet.client("b")
        session_id = await fleet.start(here, "local", approvalPolicy="all")
        note = await here.wait_for("warning", lambda body: body["code"] == "PINNED_TO_NODE")
        assert "node a" in note["payload"]["message"]
        await fleet.attach(there, session_id)
        await send(here, session_id, "slow")
        await fleet.wait_ledger(1)
        fleet.nodes["a"].kill()
        done = (await there.wait_for("run_complete"))["payload"]
        assert (done["outcome"], done["reason"]) == ("failed", "interrupted")
        assert "node a, which was lost" in done["summary"]
        message = {"sessionId": session_id, "clientMessageId": "msg_2", "text": "count"}
        assert (await refusal(there, "send_user_message", message, session_id)).code == "SANDBOX_UNAVAILABLE"
        fleet.restart("a")
        async with asyncio.timeout(PATIENCE):
            while True:
                try:
                    await send(there, session_id, "count", "msg_3")
                    break
                except ErrorResponse as error:
                    assert error.retryable
                    await asyncio.sleep(0.1)
        assert (await there.wait_for("run_complete"))["payload"]["outcome"] == "success"
        assert fleet.owner(session_id) == "a"
        assert await fleet.violations(session_id) == []


@pytest.mark.slow
async def test_a_session_on_a_nodes_own_machine_waits_for_it(tmp_path: Path, postgres: Postgres) -> None:
    async with FleetOf(tmp_path, postgres, "a", "b", more='[cluster]\nlost_node = "wait"\n') as fleet:
        here, there = await fleet.client("a"), await fleet.client("b")
        session_id = await fleet.start(here, "local")
        await fleet.attach(there, session_id)
        await send(here, session_id, "drip")
        await there.wait_for("assistant_token")
        fleet.nodes["a"].kill()
        await fleet.wait_state(there, "a", "lost")
        message = {"sessionId": session_id, "clientMessageId": "msg_2", "text": "count"}
        assert (await refusal(there, "send_user_message", message, session_id)).code == "SANDBOX_UNAVAILABLE"
        fleet.restart("a")
        assert (await there.wait_for("run_complete"))["payload"]["outcome"] == "success"
        assert not [e for e in there.events if e["type"] == "recovery" and e["payload"]["action"] == "taken_over"]
        assert await fleet.violations(session_id) == []
