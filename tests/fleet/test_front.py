"""A fleet behind a real TLS front: one public name, any node behind it, and the checks of a browser's requests."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import websockets

from tests.fleet.front import Front
from tests.fleet.nodes import FleetOf
from tests.harness.clients import send
from tests.harness.jwt_issuer import Issuer
from tests.harness.postgres import Postgres
from tests.harness.processes import free_port

pytestmark = pytest.mark.usefixtures("placement")


@asynccontextmanager
async def fleet_behind(front: Front, folder: Path, postgres: Postgres, issuer: Issuer) -> AsyncGenerator[FleetOf]:
    fleet = FleetOf(folder, postgres, more=issuer.settings(folder / "jwks.json"))
    for name in ("a", "b"):
        fleet.add(name, public_url=front.origin).flags = ["--listen", "127.0.0.1:0"]
    async with fleet:
        with front.serve(*(f"127.0.0.1:{daemon.port()}" for daemon in fleet.nodes.values())):
            yield fleet


@pytest.mark.slow
@pytest.mark.needs("caddy")
async def test_a_front_with_tls_serves_one_fleet_under_one_name(tmp_path: Path, postgres: Postgres) -> None:
    front, issuer = Front(tmp_path, free_port()), Issuer()
    async with fleet_behind(front, tmp_path, postgres, issuer) as fleet:
        client = await front.connect(Authorization=f"Bearer {issuer.token('ann')}", Origin=front.origin)
        session_id = await fleet.start(client, approvalPolicy="all")
        await send(client, session_id, "twice")
        assert (await client.wait_for("run_complete"))["payload"]["outcome"] == "success"
        # A page logs in through one node, and its cookie is good on all of them.
        status, cookie = await front.log_in(issuer.token("ann"), Origin=front.origin)
        assert status == 200
        assert {"Secure", "HttpOnly", "SameSite=Strict"} <= set(cookie.split("; "))
        pages = [await front.connect(Cookie=cookie.partition(";")[0], Origin=front.origin) for _ in range(4)]
        served = {(await page.ask("daemon_status"))["node"] for page in pages}
        assert served == {"a", "b"}
        for page in pages:
            await fleet.attach(page, session_id)
            await page.wait_for("run_complete")
        # Another page is refused, with a cookie or without.
        with pytest.raises(websockets.InvalidStatus) as refused:
            await front.connect(Cookie=cookie.partition(";")[0], Origin="https://evil.example")
        assert refused.value.response.status_code == 403
        assert (await front.log_in(issuer.token("ann"), Origin="https://evil.example"))[0] == 403
        # A node that drains gets no new connections; what is connected stays.
        owner = await fleet.client("b")
        await owner.ask("drain_node", {"node": "a"})
        await fleet.wait_state(owner, "a", "drained")
        await asyncio.sleep(1)  # ten checks of its health
        later = [await front.connect(Cookie=cookie.partition(";")[0]) for _ in range(4)]
        assert {(await page.ask("daemon_status"))["node"] for page in later} == {"b"}
        assert {(await page.ask("daemon_status"))["node"] for page in pages} == {"a", "b"}
        for page in (client, *pages, *later):
            await page.close()
        assert await fleet.violations(session_id) == []


@pytest.mark.slow
@pytest.mark.needs("caddy")
async def test_a_client_of_a_front_continues_when_its_node_dies(tmp_path: Path, postgres: Postgres) -> None:
    front, issuer = Front(tmp_path, free_port()), Issuer()
    async with fleet_behind(front, tmp_path, postgres, issuer) as fleet:
        login = f"Bearer {issuer.token('ann')}"
        client = await front.connect(Authorization=login)
        session_id = await fleet.start(client, approvalPolicy="all")
        await send(client, session_id, "drip")
        await client.wait_for("assistant_token")
        node = (await client.ask("daemon_status"))["node"]
        fleet.nodes[node].kill()
        await client.ended()
        seen = max(event["seq"] for event in client.events)
        again = await front.connect(Authorization=login)
        await fleet.attach(again, session_id, seen)
        assert (await again.wait_for("run_complete"))["payload"]["outcome"] == "success"
        assert await fleet.violations(session_id, to_end=[again]) == []
        await again.close()
