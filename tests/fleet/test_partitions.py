"""Nodes on hosts of their own whose network fails: others continue, and what was cut off does nothing more."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import pytest

from tests.fleet.nodes import FleetOf
from tests.fleet.test_failures import taken_over
from tests.harness.clients import send
from tests.harness.networks import DATABASE, SERVERS, TEMPORAL, Network
from tests.harness.postgres import Postgres, socket_url
from tests.harness.temporal import Temporal, settings

Cable = Callable[[Network, str, Sequence[str]], None]
ALL = tuple(SERVERS)
SILENT = (Network.cut, Network.mend)
UNPLUGGED = (Network.unplug, Network.plug_in)
BY_HAND = pytest.mark.long


@asynccontextmanager
async def fleet_on_hosts(folder: Path, network: Network, placed_by: str) -> AsyncGenerator[FleetOf]:
    """Two nodes and the servers, each on a host of its own. The test reaches them by their Unix sockets."""
    server = Postgres(listen_addresses="*")
    server.prefix = network.on(DATABASE)
    with server, ExitStack() as stack:
        with (server.data / "pg_hba.conf").open("a") as rules:
            rules.write("host all all 10.77.0.0/16 trust\n")
        server.sql("SELECT pg_reload_conf()")
        cluster = ""
        if placed_by == "temporal":
            temporal = Temporal(SERVERS[TEMPORAL], network.on(TEMPORAL), "0.0.0.0")  # noqa: S104 - of its own network
            cluster = settings(stack.enter_context(temporal))
        fleet = FleetOf(folder, server, "a", "b", cluster=cluster)
        fleet.url = socket_url(server, fleet.database)
        fleet.env["BUDDY_LOG"] = f"postgresql://postgres@{SERVERS[DATABASE]}:{server.port}/{fleet.database}"
        for name, daemon in fleet.nodes.items():
            daemon.prefix = network.add(name)
        async with fleet:
            yield fleet


@pytest.mark.slow
@pytest.mark.parametrize(
    ("placed_by", "cable", "servers"),
    [
        pytest.param("postgres", SILENT, ALL, id="silent"),
        pytest.param("postgres", UNPLUGGED, ALL, id="unplugged"),
        pytest.param("temporal", SILENT, ALL, id="temporal-silent", marks=BY_HAND),
        pytest.param("temporal", UNPLUGGED, ALL, id="temporal-unplugged", marks=BY_HAND),
        pytest.param("temporal", SILENT, [DATABASE], id="temporal-silent-database"),
        pytest.param("temporal", UNPLUGGED, [DATABASE], id="temporal-unplugged-database", marks=BY_HAND),
    ],
)
async def test_a_node_that_is_cut_off_loses_its_sessions(
    tmp_path: Path, placed_by: str, cable: tuple[Cable, Cable], servers: Sequence[str]
) -> None:
    cut, mend = cable
    with Network() as network:
        async with fleet_on_hosts(tmp_path, network, placed_by) as fleet:
            here, there, streaming = await fleet.stream()
            calling = await fleet.start(here, approvalPolicy="all")
            await fleet.attach(there, calling)
            await send(here, calling, "slow")
            await fleet.wait_ledger(1)
            cut(network, "a", servers)
            await taken_over(there, "b", "a")
            # The call goes on where node a cannot end it, until node b has fenced its target.
            result = await there.wait_for("tool_result", lambda body: body["isError"])
            assert result["payload"]["structuredError"]["type"] == "UNKNOWN_OUTCOME"
            assert {(await there.wait_for("run_complete"))["sessionId"] for _ in range(2)} == {streaming, calling}
            mend(network, "a", servers)
            # Its clients receive what they missed, and it is a gateway again.
            assert {(await here.wait_for("run_complete"))["sessionId"] for _ in range(2)} == {streaming, calling}
            await send(here, calling, "twice")
            assert (await there.wait_for("run_complete"))["payload"]["outcome"] == "success"
            assert {fleet.owner(session_id) for session_id in (streaming, calling)} == {"b"}
            assert len(fleet.ledger.read_text().split()) == 3
            assert await fleet.violations(streaming, calling, to_end=[there]) == []


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("cable", [pytest.param(SILENT, id="silent"), pytest.param(UNPLUGGED, id="unplugged")])
async def test_a_node_that_cannot_reach_temporal_keeps_its_sessions(tmp_path: Path, cable: tuple[Cable, Cable]) -> None:
    cut, mend = cable
    with Network() as network:
        async with fleet_on_hosts(tmp_path, network, "temporal") as fleet:
            here, there, session_id = await fleet.stream()
            cut(network, "a", [TEMPORAL])
            # Temporal asks node b in vain: the log says that node a lives.
            for client in (here, there):
                assert (await client.wait_for("run_complete"))["payload"]["outcome"] == "success"
            await fleet.wait_logged("a", "can't reach Temporal")
            assert fleet.owner(session_id) == "a"
            assert not [event for event in there.events if event["type"] == "recovery"]
            await send(there, session_id, "twice")
            await there.wait_for("run_complete")
            # It is lost as any other if it dies now.
            await send(there, session_id, "drip")
            await there.wait_for("assistant_token")
            fleet.nodes["a"].kill()
            await taken_over(there, "b", "a")
            mend(network, "a", [TEMPORAL])
            fleet.restart("a")
            assert (await there.wait_for("run_complete"))["payload"]["outcome"] == "success"
            assert len(fleet.ledger.read_text().split()) == 2
            assert await fleet.violations(session_id, to_end=[there]) == []
