"""Attach tokens: kept as hashes, listed without themselves, and worth nothing once revoked or over."""

import asyncio
from pathlib import Path

import pytest
import websockets

from buddy.client.client import Client
from buddy.client.socket import connect_unix
from daemon.plain import OnWebSocket, Plain, Refused
from daemon.running import Daemon
from daemon.seeding import seed
from daemon.talking import Transport, attach, plain, send, start, wait_for_connections


async def mint(owner: Plain, session_id: str, role: str = "observer", seconds: float | None = None) -> str:
    request: dict[str, object] = {"role": role}
    if seconds is not None:
        request["expiresInSeconds"] = seconds
    return (await owner.ask("mint_token", request, session_id))["attachToken"]


@pytest.mark.parametrize("transport", ["unix", "websocket"])
@pytest.mark.parametrize("by", ["token", "id"])
async def test_a_revoked_token_ends_the_connections_that_came_with_it(
    shared: Daemon, transport: Transport, by: str
) -> None:
    async with plain(shared) as owner:
        session_id = await start(owner, shared)
        token, other = await mint(owner, session_id), await mint(owner, session_id, "approver")
        async with (
            plain(shared, transport, token=token) as guest,
            plain(shared, transport, token=other) as bystander,
        ):
            await attach(guest, session_id, 0, token)
            await attach(bystander, session_id, 0, other)
            await guest.until("session_started")
            listed = (await owner.ask("list_tokens", {}, session_id))["tokens"]
            assert sorted(entry["role"] for entry in listed) == ["approver", "driver", "observer"]
            assert token not in str(listed)
            named = token if by == "token" else next(entry["id"] for entry in listed if entry["role"] == "observer")
            assert await owner.ask("revoke_token", {"attachToken": named}, session_id) == {"revoked": True}
            await guest.ended()
            assert (await bystander.ask("ping"))["pong"]
        listed = (await owner.ask("list_tokens", {}, session_id))["tokens"]
        assert sorted(entry["role"] for entry in listed) == ["approver", "driver"]
        async with plain(shared) as late:
            with pytest.raises(Refused, match="ATTACH_FORBIDDEN"):
                await attach(late, session_id, 0, token)
        with pytest.raises(websockets.InvalidStatus, match="401"):
            await OnWebSocket.connect(f"ws://127.0.0.1:{shared.port()}", token)


@pytest.mark.parametrize("transport", ["unix", "websocket"])
async def test_a_revoked_client_that_reads_nothing_is_closed_all_the_same(tmp_path: Path, transport: Transport) -> None:
    daemon = Daemon(tmp_path, web=True)
    session_id = await seed(daemon.state_dir, daemon.workspace, 10_000, 2000)
    with daemon:
        async with plain(daemon) as owner:
            token = await mint(owner, session_id)
            async with plain(daemon, transport, token=token) as guest:
                await attach(guest, session_id, 0, token)
                await owner.ask("revoke_token", {"attachToken": token}, session_id)
                await wait_for_connections(owner, 1)
                await guest.ended()


@pytest.mark.parametrize("transport", ["unix", "websocket"])
async def test_a_token_that_runs_out_ends_its_connection(shared: Daemon, transport: Transport) -> None:
    async with plain(shared) as owner:
        session_id = await start(owner, shared)
        token = await mint(owner, session_id, "driver", 0.7)
        async with plain(shared, transport, token=token) as guest:
            await attach(guest, session_id, 0, token)
            await guest.until("session_started")
            await guest.ended()
        async with plain(shared) as late:
            with pytest.raises(Refused, match="ATTACH_FORBIDDEN"):
                await attach(late, session_id, 0, token)
        assert (await owner.ask("ping"))["pong"]


async def test_tokens_are_nowhere_on_disk_but_as_hashes(tmp_path: Path) -> None:
    with Daemon(tmp_path, web=True) as daemon:
        async with plain(daemon) as owner:
            session_id = await start(owner, daemon)
            tokens = [owner.token, await mint(owner, session_id), await mint(owner, session_id, "driver", 600)]
            # A token that is pasted into a conversation is a secret like any other.
            await send(owner, session_id, f"echo {tokens[0]}")
            await owner.until("run_complete")
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
        async with plain(daemon) as owner:
            session_id = await start(owner, daemon)
            token = await mint(owner, session_id)
        daemon.kill()
        daemon.start()
        async with plain(daemon, "websocket", token=token) as guest:
            await attach(guest, session_id)
            await guest.until("session_started")
            with pytest.raises(Refused, match="ATTACH_FORBIDDEN"):
                await send(guest, session_id, "count")


async def test_our_client_gives_up_when_it_is_refused_for_good(shared: Daemon) -> None:
    async with plain(shared) as owner:
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
            async with asyncio.timeout(10):
                received = [event.type async for event in client.events()]
            assert received == ["session_started"]
            assert tries == 1
