"""Any client on any node for any session: requests are forwarded, events reach everybody, decisions are made once."""

import asyncio
import json
from pathlib import Path

import pytest

from tests.fleet.nodes import FleetOf, approve, refusal
from tests.harness.clients import decide, read_log, send, wire_client
from tests.harness.postgres import Postgres
from tests.harness.wire_client import ErrorResponse

pytestmark = pytest.mark.usefixtures("placement")


async def test_every_node_serves_every_session(tmp_path: Path, postgres: Postgres) -> None:
    async with FleetOf(tmp_path, postgres, "a", "b") as fleet:
        here, there = await fleet.client("a"), await fleet.client("b")
        session_id = await fleet.start(here)
        started = await here.wait_for("session_started")
        assert started["payload"]["node"] == "a"
        await fleet.attach(there, session_id)
        # A message from the other node is answered with its run, and both receive all of it.
        run_id = await send(there, session_id, "count")
        for client in (here, there):
            assert (await client.wait_for("run_started"))["payload"] | {"node": "a", "runId": run_id}
            assert (await client.wait_for("run_complete"))["runId"] == run_id
        assert await send(there, session_id, "again", "msg_1") == await send(here, session_id, "again", "msg_1")
        for client in (here, there):
            await client.wait_for("run_complete")
        # A decision that is raced from two nodes is made once, and the loser learns of it.
        await send(there, session_id, "make it")
        asked = await there.wait_for("approval_required")
        await here.wait_for("approval_required")
        raced = await asyncio.gather(decide(here, asked), decide(there, asked), return_exceptions=True)
        assert sorted(str(one)[:16] for one in raced) == ["APPROVAL_EXPIRED", "{'accepted': Tru"]
        for client in (here, there):
            assert (await client.wait_for("run_complete"))["payload"]["outcome"] == "success"
        # What needs the session open is answered by its node, and what fails there fails here.
        assert (await there.ask("get_snapshot", {}, session_id))["state"] == "idle"
        assert await there.ask("rename_session", {"title": "shared"}, session_id) == {"title": "shared"}
        none = {"sessionId": session_id, "runId": run_id}
        assert (await refusal(there, "cancel_run", none, session_id)).code == "NO_ACTIVE_RUN"
        assert [row["title"] for row in (await there.ask("list_sessions"))["sessions"]] == ["shared"]
        assert fleet.owner(session_id) == "a"
        assert await read_log(there, session_id) == await read_log(here, session_id)
        assert await fleet.violations(session_id) == []
        assert fleet.sql("SELECT count(*) FROM requests") == "0"


@pytest.mark.slow
async def test_a_decision_that_could_not_be_written_refuses_no_other(tmp_path: Path, postgres: Postgres) -> None:
    async with FleetOf(tmp_path, postgres, "a", "b") as fleet:
        first, second, there = await fleet.client("a"), await fleet.client("a"), await fleet.client("b")
        session_id = await fleet.start(first)
        for client in (second, there):
            await fleet.attach(client, session_id)
        await send(first, session_id, "make it")
        asked = await there.wait_for("approval_required")
        # Node a does not know yet that it has lost the session: of two decisions neither can be written.
        fleet.sql("UPDATE sessions SET epoch = epoch + 1, owner = NULL, due = 0")
        raced = await asyncio.gather(decide(first, asked), decide(second, asked), return_exceptions=True)
        refused = [one for one in raced if isinstance(one, ErrorResponse) and not one.retryable]
        assert len(refused) < 2, raced
        if not any(isinstance(one, dict) for one in raced):
            assert refused == []
            await approve(there, asked)
        assert (await there.wait_for("run_complete"))["payload"]["outcome"] == "success"
        assert len(fleet.ledger.read_text().split()) == 1
        assert await fleet.violations(session_id) == []


@pytest.mark.slow
async def test_a_token_is_not_in_what_nodes_send_each_other(tmp_path: Path, postgres: Postgres) -> None:
    async with FleetOf(tmp_path, postgres, "a", "b") as fleet:
        here, there = await fleet.client("a"), await fleet.client("b")
        session_id = await fleet.start(here)
        keep = "CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'"
        fleet.sql(keep)
        fleet.sql("CREATE TRIGGER kept BEFORE DELETE ON requests FOR EACH ROW EXECUTE FUNCTION keep()")
        token = (await there.ask("mint_token", {"role": "observer"}, session_id))["attachToken"]
        assert len((await there.ask("list_tokens", {}, session_id))["tokens"]) == 2
        assert await there.ask("revoke_token", {"attachToken": token}, session_id) == {"revoked": True}
        assert (await there.ask("get_snapshot", {}, session_id))["state"] == "idle"
        sent = fleet.sql("SELECT convert_from(body, 'UTF8') || convert_from(reply, 'UTF8') FROM requests")
        assert "get_snapshot" in sent
        assert "att_" not in sent


@pytest.mark.slow
async def test_nodes_are_listed_and_a_name_is_taken_once(tmp_path: Path, postgres: Postgres) -> None:
    async with FleetOf(tmp_path, postgres, "a") as fleet:
        client = await fleet.client("a")
        status = await client.ask("daemon_status")
        assert status["node"] == "a"
        assert [(one["node"], one["state"]) for one in status["fleet"]] == [("a", "ready")]
        listed = json.loads(fleet.nodes["a"].run("node", "list", "--json").out)["nodes"]
        assert [(one["node"], one["state"], one["runs"]) for one in listed] == [("a", "ready", 0)]
        assert "a (this daemon): ready" in fleet.nodes["a"].run("node", "status").out
        same = fleet.add("same", name="a")
        assert same.launch(BUDDY_LOG=fleet.url).wait(60) == 64
        assert "the node name 'a' is in use" in same.output()
        gone = fleet.nodes["a"].run("node", "drain", "nobody")
        assert (gone.code, "no node 'nobody'. Available: a" in gone.err) == (64, True)


@pytest.mark.slow
async def test_a_gateway_has_its_sessions_run_by_workers(tmp_path: Path, postgres: Postgres) -> None:
    fleet = FleetOf(tmp_path, postgres, "worker")
    fleet.add("front", worker=False).flags = ["--listen", "127.0.0.1:0"]
    async with fleet:
        client = await fleet.client("front")
        session_id = await fleet.start(client)
        assert (await client.wait_for("session_started"))["payload"]["node"] == "worker"
        await send(client, session_id, "count")
        assert (await client.wait_for("run_complete"))["payload"]["outcome"] == "success"
        assert fleet.owner(session_id) == "worker"
        assert await fleet.violations(session_id) == []
        # What a guest makes ends with the guest's token.
        token = (await client.ask("mint_token", {"role": "driver"}, session_id))["attachToken"]
        async with wire_client(fleet.nodes["front"], "websocket", token=token) as guest:
            await fleet.attach(guest, session_id)
            copy = await guest.ask("fork_session", {"sessionId": session_id, "seq": 1}, session_id)
            assert await client.ask("revoke_token", {"attachToken": token}, session_id) == {"revoked": True}
        assert (await client.ask("list_tokens", {}, copy["sessionId"]))["tokens"] == []


async def test_a_token_that_is_revoked_on_one_node_is_useless_on_all(tmp_path: Path, postgres: Postgres) -> None:
    async with FleetOf(tmp_path, postgres, "a", web="b") as fleet:
        here = await fleet.client("a")
        session_id = await fleet.start(here)
        token = (await here.ask("mint_token", {"role": "observer"}, session_id))["attachToken"]
        async with wire_client(fleet.nodes["b"], "websocket", token=token) as guest:
            await fleet.attach(guest, session_id)
            await guest.wait_for("session_started")
            await here.ask("revoke_token", {"attachToken": token}, session_id)
            await guest.ended()


@pytest.mark.slow
async def test_a_command_without_a_daemon_is_a_node_while_it_runs(tmp_path: Path, postgres: Postgres) -> None:
    async with FleetOf(tmp_path, postgres, "a") as fleet:
        client = await fleet.client("a")
        other = fleet.add("b")
        done = await asyncio.to_thread(other.run, "exec", "count", "--log", fleet.url, "--json")
        assert done.code == 0, done.err
        session_id = json.loads(done.out)["sessionId"]
        await fleet.attach(client, session_id)
        assert (await client.wait_for("run_complete"))["payload"]["outcome"] == "success"
        states = {node["node"]: node["state"] for node in (await client.ask("list_nodes"))["nodes"]}
        assert states == {"a": "ready", "b": "stopped"}
        assert await fleet.violations(session_id) == []


@pytest.mark.slow
async def test_a_node_without_room_gives_a_session_to_another(tmp_path: Path, postgres: Postgres) -> None:
    fleet = FleetOf(tmp_path, postgres)
    for name in ("a", "b"):
        fleet.add(name, max_runs=1)
    async with fleet:
        client = await fleet.client("a")
        first, second = await fleet.start(client), await fleet.start(client)
        await send(client, first, "drip")
        await send(client, second, "count")
        done = await client.wait_for("run_complete")
        assert (done["sessionId"], done["payload"]["outcome"]) == (second, "success")
        assert (fleet.owner(first), fleet.owner(second)) == ("a", "b")
        assert (await client.wait_for("run_complete"))["sessionId"] == first
        assert await fleet.violations(first, second) == []


@pytest.mark.slow
async def test_a_copy_of_a_local_session_stays_with_its_node(tmp_path: Path, postgres: Postgres) -> None:
    async with FleetOf(tmp_path, postgres, "a", "b") as fleet:
        here, there = await fleet.client("a"), await fleet.client("b")
        session_id = await fleet.start(here, "local")
        for client in (here, there):
            made = await client.ask("fork_session", {"sessionId": session_id, "seq": 1}, session_id)
            assert f"{made['sessionId']}|a|1" in fleet.sql("SELECT id, pinned, epoch FROM sessions").split()
            assert fleet.owner(made["sessionId"]) == "a"
