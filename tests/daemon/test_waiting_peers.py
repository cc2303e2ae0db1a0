"""Connections without a token never keep out a peer that has one."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import websockets

from buddy.daemon.waiting_peers import WaitingPeers
from tests.daemon.test_tokens import mint
from tests.harness.clients import attach, start, wire_client
from tests.harness.daemon import Daemon
from tests.harness.wire_client import ErrorResponse

IDLE = 60


class Peer(asyncio.Transport):
    """A transport that only remembers that it was aborted."""

    def __init__(self) -> None:
        super().__init__()
        self.is_gone = False

    def abort(self) -> None:
        self.is_gone = True


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\n", b"GET /ws HTTP/1.1\r\nHost: 127.0.0.1\r\n"])
async def test_idle_connections_do_not_keep_the_owner_out(tmp_path: Path, sent: bytes) -> None:
    with Daemon(tmp_path, limits={"connections": 40, "hello_seconds": 600}, web=True) as daemon:
        idle = [await asyncio.open_connection("127.0.0.1", daemon.port()) for _ in range(IDLE)]
        for _, writer in idle:
            writer.write(sent)
        async with wire_client(daemon, "websocket") as owner:
            assert (await owner.ask("ping"))["pong"]
            more = [await asyncio.open_connection("127.0.0.1", daemon.port()) for _ in range(IDLE)]
            assert (await owner.ask("ping"))["pong"]
            idle += more
        for _, writer in idle:
            writer.close()


GUESS = (
    "GET /ws HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nAuthorization: Bearer att_no\r\n\r\n"
)


async def test_wrong_tokens_do_not_keep_the_owner_out(tmp_path: Path) -> None:
    with Daemon(tmp_path, limits={"connections": 40}, web=True) as daemon:
        guesses = [await asyncio.open_connection("127.0.0.1", daemon.port()) for _ in range(IDLE)]
        for _, writer in guesses:
            writer.write(GUESS.format(port=daemon.port()).encode())
        async with wire_client(daemon, "websocket") as owner:
            assert (await owner.ask("ping"))["pong"]
        for _, writer in guesses:
            writer.close()


async def test_guests_leave_a_place_for_the_owner(tmp_path: Path) -> None:
    with Daemon(tmp_path, limits={"connections": 8}, web=True) as daemon:
        async with wire_client(daemon) as first, AsyncExitStack() as guests:
            session_id = await start(first, daemon)
            token = await mint(first, session_id, "observer")
            admitted = 0
            for _ in range(8):
                try:
                    guest = await guests.enter_async_context(wire_client(daemon, "websocket", token=token))
                    await attach(guest, session_id, 0, token)
                    admitted += 1
                except (ConnectionError, ErrorResponse, websockets.WebSocketException):
                    break
            assert admitted == 5
            async with wire_client(daemon, "websocket") as owner:
                assert (await owner.ask("ping"))["pong"]


def test_the_oldest_of_the_busiest_address_goes_first() -> None:
    waiting, peers = WaitingPeers(4), dict[tuple[str, int], Peer]()
    for address in (("a", 1), ("b", 1), ("b", 2), ("b", 3), ("c", 1), ("c", 2)):
        peers[address] = Peer()
        waiting.add(address, peers[address])
    assert [address for address, peer in peers.items() if peer.is_gone] == [("b", 1), ("b", 2)]
    assert len(waiting) == 4
    waiting.discard(("a", 1))
    waiting.discard(("a", 1))
    assert len(waiting) == 3
