"""Attach tokens: kept as hashes, listed without themselves, and worth nothing once revoked or over."""

import asyncio
from pathlib import Path

import pytest
import websockets

from buddy.client.client import Client
from buddy.client.socket import connect_unix
from tests.daemon.history import write_history
from tests.harness.clients import TransportName, attach, send, start, wait_for_connections, wire_client
from tests.harness.daemon import Daemon
from tests.harness.processes import PATIENCE
from tests.harness.wire_client import ErrorResponse, WebSocketTransport, WireClient


async def mint(owner: WireClient, session_id: str, role: str = "observer", seconds: float | None = None) -> str:
    request: dict[str, object] = {"role": role}
    if seconds is not None:
        request["expiresInSeconds"] = seconds
    return (await owner.ask("mint_token", request, session_id))["attachToken"]


@pytest.mark.parametrize("transport", ["unix", "websocket"])
@pytest.mark.parametrize("by", ["token", "id"])
async def test_a_revoked_token_ends_the_connections_that_came_with_it(
    shared: Daemon, transport: TransportName, by: str
) -> None:
    async with wire_client(shared) as owner:
        session_id = await start(owner, shared)
        token, other = await mint(owner, session_id), await mint(owner, session_id, "approver")
        async with (
            wire_client(shared, transport, token=token) as client,
            wire_client(shared, transport, token=other) as bystander,
        ):
            await attach(client, session_id, 0, token)
            await attach(bystander, session_id, 0, other)
            await client.wait_for("session_started")
            listed = (await owner.ask("list_tokens", {}, session_id))["tokens"]
            assert sorted(entry["role"] for entry in listed) == ["approver", "driver", "observer"]
            assert token not in str(listed)
            named = token if by == "token" else next(entry["id"] for entry in listed if entry["role"] == "observer")
            assert await owner.ask("revoke_token", {"attachToken": named}, session_id) == {"revoked": True}
            await client.ended()
            assert (await bystander.ask("ping"))["pong"]
        listed = (await owner.ask("list_tokens", {}, session_id))["tokens"]
        assert sorted(entry["role"] for entry in listed) == ["approver", "driver"]
        async with wire_client(shared) as late:
            with pytest.raises(ErrorResponse, match="ATTACH_FORBIDDEN"):
                await attach(late, session_id, 0, token)
        with pytest.raises(websockets.InvalidStatus, match="401"):
            await WebSocketTransport.connect(f"ws://127.0.0.1:{shared.port()}", token)


@pytest.mark.parametrize("transport", ["unix", "websocket"])
async def test_who_revokes_its_own_token_gets_an_answer_first(shared: Daemon, transport: TransportName) -> None:
    async with wire_client(shared) as owner:
        session_id = await start(owner, shared)
        token = await mint(owner, session_id, "driver")
        async with wire_client(shared, transport, token=token) as client:
            await attach(client, session_id, 0, token)
            assert await client.ask("revoke_token", {"attachToken": token}, session_id) == {"revoked": True}
            await client.ended()


async def test_a_part_of_a_tokens_id_revokes_nothing(shared: Daemon) -> None:
    async with wire_client(shared) as owner:
        session_id = await start(owner, shared)
        await mint(owner, session_id)
        before = (await owner.ask("list_tokens", {}, session_id))["tokens"]
        for part in (before[0]["id"][0], before[0]["id"][:-1]):
            assert await owner.ask("revoke_token", {"attachToken": part}, session_id) == {"revoked": False}
        assert (await owner.ask("list_tokens", {}, session_id))["tokens"] == before


@pytest.mark.parametrize("transport", ["unix", "websocket"])
async def test_a_revoked_client_that_reads_nothing_is_closed_too(tmp_path: Path, transport: TransportName) -> None:
    daemon = Daemon(tmp_path, web=True)
    session_id = await write_history(daemon.state_dir, daemon.workspace, 10_000, 2000)
    with daemon:
        async with wire_client(daemon) as owner:
            token = await mint(owner, session_id)
            async with wire_client(daemon, transport, token=token) as client:
                await attach(client, session_id, 0, token)
                await owner.ask("revoke_token", {"attachToken": token}, session_id)
                await wait_for_connections(owner, 1)
                await client.ended()


@pytest.mark.parametrize("transport", ["unix", "websocket"])
async def test_a_token_that_runs_out_ends_its_connection(shared: Daemon, transport: TransportName) -> None:
    async with wire_client(shared) as owner:
        session_id = await start(owner, shared)
        token = await mint(owner, session_id, "driver", 0.7)
        async with wire_client(shared, transport, token=token) as client:
            await attach(client, session_id, 0, token)
            await client.wait_for("session_started")
            await client.ended()
        async with wire_client(shared) as late:
            with pytest.raises(ErrorResponse, match="ATTACH_FORBIDDEN"):
                await attach(late, session_id, 0, token)
        assert (await owner.ask("ping"))["pong"]


async def test_tokens_are_nowhere_on_disk_but_as_hashes(tmp_path: Path) -> None:
    with Daemon(tmp_path, web=True) as daemon:
        async with wire_client(daemon) as owner:
            session_id = await start(owner, daemon)
            tokens = [owner.token, await mint(owner, session_id), await mint(owner, session_id, "driver", 600)]
            # A token that is pasted into a conversation is a secret like any other.
            await send(owner, session_id, f"echo {tokens[0]}")
            await owner.wait_for("run_complete")
            assert tokens[0] not in str(owner.events)
        own = daemon.token()
        daemon.stop()
        for path in daemon.state_dir.rglob("*"):
            content = path.read_bytes() if path.is_file() else b""
            for token in tokens:
                assert token.encode() not in content, path
            assert own.encode() not in content or path.name == "web-token", path


async def test_tokens_outlive_the_daemon(tmp_path: Path) -> None:
    with Daemon(tmp_path, web=True) as daemon:
        async with wire_client(daemon) as owner:
            session_id = await start(owner, daemon)
            token = await mint(owner, session_id)
        daemon.kill()
        daemon.start()
        async with wire_client(daemon, "websocket", token=token) as client:
            await attach(client, session_id)
            await client.wait_for("session_started")
            with pytest.raises(ErrorResponse, match="ATTACH_FORBIDDEN"):
                await send(client, session_id, "count")


async def test_our_client_gives_up_after_a_permanent_refusal(shared: Daemon) -> None:
    async with wire_client(shared) as owner:
        session_id = await start(owner, shared)
        token = await mint(owner, session_id)
        tries = 0

        async def again():
            nonlocal tries
            tries += 1
            return await connect_unix(shared.socket)

        async with Client(await connect_unix(shared.socket), "cli", reconnect=again) as client:
            await client.attach(session_id, 0, token)
            await owner.ask("revoke_token", {"attachToken": token}, session_id)
            async with asyncio.timeout(PATIENCE):
                received = [event.type async for event in client.events()]
            assert received == ["session_started"]
            assert tries == 1
