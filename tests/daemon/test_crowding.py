"""Peers that take every place and do nothing do not keep the owner out."""

import asyncio
from pathlib import Path

from msgspec import Struct

from buddy.daemon.crowding import make_room
from tests.harness.clients import attach, start, wire_client
from tests.harness.daemon import Daemon


class Peer(Struct):
    name: str
    is_following: bool = False
    heard_at: float = 0.0

    def close(self) -> None:
        """The test looks at who is left."""


def test_peers_without_a_hello_leave_first_and_busy_ones_never() -> None:
    peers = {
        "follower": Peer("a", is_following=True),
        "recent": Peer("b", heard_at=95.0),
        "idle": Peer("c", heard_at=50.0),
        "longest": Peer("d", heard_at=40.0),
        "silent": Peer("", heard_at=99.0),
        "later": Peer("", heard_at=10.0),
    }
    left: list[str] = []
    while (before := set(peers)) and make_room(peers, 100.0, 30.0):
        left += before - set(peers)
    assert left == ["silent", "later", "longest", "idle"]


async def test_silent_connections_leave_when_the_owner_comes(tmp_path: Path) -> None:
    with Daemon(tmp_path, limits={"connections": 20, "hello_seconds": 600}) as daemon:
        async with wire_client(daemon) as first:
            session_id = await start(first, daemon)
            silent = [await asyncio.open_unix_connection(str(daemon.socket)) for _ in range(60)]
            async with wire_client(daemon) as late:
                assert (await late.ask("ping"))["pong"]
            assert (await first.ask("ping"))["pong"]
            assert (await first.ask("daemon_status"))["connections"] <= 20
            assert session_id
            for _, writer in silent:
                writer.close()


async def test_clients_that_follow_nothing_leave_when_the_owner_comes(tmp_path: Path) -> None:
    with Daemon(tmp_path, limits={"connections": 4, "idle_seconds": 0.0}) as daemon:
        async with wire_client(daemon) as first, wire_client(daemon), wire_client(daemon), wire_client(daemon):
            session_id = await start(first, daemon)
            await attach(first, session_id, 0, first.token)
            for _ in range(3):
                async with wire_client(daemon) as late:
                    assert (await late.ask("ping"))["pong"]
            assert (await first.ask("ping"))["pong"]
