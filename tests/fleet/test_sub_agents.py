"""Sub-agents whose parent is on another node, and clients that are attached to neither's."""

import asyncio
from pathlib import Path

import pytest

from tests.fleet.nodes import FleetOf, refusal
from tests.harness.clients import decide, read_log, send
from tests.harness.postgres import Postgres
from tests.harness.scripts import Reply, section, shell
from tests.harness.wire_client import WireClient

pytestmark = pytest.mark.usefixtures("placement")

PATIENCE = 60.0
SCRIPT: list[Reply] = [
    section("^hand over", {"calls": [{"name": "delegate", "args": {"task": "part one"}}]}, {"text": "It is back."}),
    section("part one", shell('echo "$BUDDY_CALL" >> LEDGER'), {"text": "one is done"}),
]


async def move(fleet: FleetOf, session_id: str, to: str) -> None:
    """Have another node take a session, as after a failure that hit only this one."""
    change = f"epoch = epoch + 1, owner = NULL, due = 1, pinned = '{to}'"
    fleet.sql(f"UPDATE sessions SET {change} WHERE id = '{session_id}'")  # noqa: S608 - ours
    async with asyncio.timeout(PATIENCE):
        was_taken = f"{session_id} was taken"
        while fleet.owner(session_id) != to or was_taken not in fleet.nodes["a"].log():  # noqa: ASYNC110 - others do it
            await asyncio.sleep(0.05)


async def types_of(client: WireClient, session_id: str) -> list[str]:
    return [event["type"] for event in await read_log(client, session_id)]


@pytest.mark.slow
async def test_a_question_of_a_sub_agent_reaches_clients_on_all_nodes(tmp_path: Path, postgres: Postgres) -> None:
    async with FleetOf(tmp_path, postgres, "a", "b", script=SCRIPT) as fleet:
        here, there = await fleet.client("a"), await fleet.client("b")
        parent = await fleet.start(here)
        await fleet.attach(there, parent)
        await send(here, parent, "hand over")
        await decide(there, await there.wait_for("approval_required"))  # to delegate
        asked = await there.wait_for("approval_required")
        child = asked["sessionId"]
        assert child != parent
        assert asked["payload"]["parent"] == parent
        # The sub-agent moves; its parent stays, waits for it, and everybody still sees both.
        await move(fleet, child, "b")
        await decide(there, asked)
        done = await there.wait_for("run_complete", lambda body: body["outcome"] == "success")
        assert done["sessionId"] == parent
        assert (fleet.owner(parent), fleet.owner(child)) == ("a", "b")
        assert "It is back." in str(await read_log(there, parent))
        assert len(fleet.ledger.read_text().split()) == 1
        assert await fleet.violations(parent, child) == []


@pytest.mark.slow
async def test_policy_cancel_and_delete_reach_a_sub_agent_on_another_node(tmp_path: Path, postgres: Postgres) -> None:
    async with FleetOf(tmp_path, postgres, "a", "b", script=SCRIPT) as fleet:
        here, there = await fleet.client("a"), await fleet.client("b")
        parent = await fleet.start(here)
        sent = await send(here, parent, "hand over")
        await decide(here, await here.wait_for("approval_required"))
        child = (await here.wait_for("approval_required"))["sessionId"]
        await move(fleet, child, "b")
        wider = await refusal(there, "set_approval_policy", {"policy": "all"}, child)
        assert "cannot be wider than its parent's" in str(wider)
        await here.ask("set_approval_policy", {"policy": "ask"}, parent)
        assert "approval_policy_changed" in await types_of(there, child)
        assert (await refusal(here, "delete_session", {}, parent)).code == "RUN_IN_PROGRESS"
        await here.ask("cancel_run", {"sessionId": parent, "runId": sent}, parent)
        done = await here.wait_for("run_complete", lambda body: body["outcome"] == "cancelled")
        assert done["sessionId"] == parent
        ended = [event for event in await read_log(there, child) if event["type"] == "run_complete"]
        assert [event["payload"]["outcome"] for event in ended] == ["cancelled"]
        assert await fleet.violations(parent, child) == []
        assert fleet.owner(child) == "b"
        assert (await here.ask("delete_session", {}, parent))["deleted"]
        assert fleet.sql("SELECT count(*) FROM sessions") == "0"
        assert (await refusal(there, "get_snapshot", {}, child)).code == "SESSION_NOT_FOUND"
