"""Nodes on hosts of their own whose network fails: others continue, and what was cut off does nothing more."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.fleet.nodes import FleetOf
from tests.fleet.test_failures import taken_over
from tests.harness.clients import send
from tests.harness.networks import SERVER, Network
from tests.harness.postgres import Postgres, socket_url

Cable = Callable[[Network, str], None]


@asynccontextmanager
async def fleet_on_hosts(folder: Path, network: Network) -> AsyncGenerator[FleetOf]:
    """Two nodes and the database, each on a host of its own. The test reaches all of them by their Unix sockets."""
    server = Postgres(listen_addresses="*")
    server.prefix = network.on_server
    with server:
        with (server.data / "pg_hba.conf").open("a") as rules:
            rules.write("host all all 10.77.0.0/16 trust\n")
        server.sql("SELECT pg_reload_conf()")
        fleet = FleetOf(folder, server, "a", "b")
        fleet.url = socket_url(server, fleet.database)
        fleet.env["BUDDY_LOG"] = f"postgresql://postgres@{SERVER}:{server.port}/{fleet.database}"
        for name, daemon in fleet.nodes.items():
            daemon.prefix = network.add(name)
        async with fleet:
            yield fleet


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cut", "mend"),
    [
        pytest.param(Network.cut, Network.mend, id="silent"),
        pytest.param(Network.unplug, Network.plug_in, id="unplugged"),
    ],
)
async def test_a_node_that_is_cut_off_loses_its_sessions(tmp_path: Path, cut: Cable, mend: Cable) -> None:
    with Network() as network:
        async with fleet_on_hosts(tmp_path, network) as fleet:
            here, there, streaming = await fleet.stream()
            calling = await fleet.start(here, approvalPolicy="all")
            await fleet.attach(there, calling)
            await send(here, calling, "slow")
            await fleet.wait_ledger(1)
            cut(network, "a")
            await taken_over(there, "b", "a")
            # The call goes on where node a cannot end it, until node b has fenced its target.
            result = await there.wait_for("tool_result", lambda body: body["isError"])
            assert result["payload"]["structuredError"]["type"] == "UNKNOWN_OUTCOME"
            assert {(await there.wait_for("run_complete"))["sessionId"] for _ in range(2)} == {streaming, calling}
            mend(network, "a")
            # Its clients receive what they missed, and it is a gateway again.
            assert {(await here.wait_for("run_complete"))["sessionId"] for _ in range(2)} == {streaming, calling}
            await send(here, calling, "twice")
            assert (await there.wait_for("run_complete"))["payload"]["outcome"] == "success"
            assert {fleet.owner(session_id) for session_id in (streaming, calling)} == {"b"}
            assert len(fleet.ledger.read_text().split()) == 3
            assert await fleet.violations(streaming, calling, to_end=[there]) == []
