"""The heartbeat of a node: nothing that takes long or fails may stop it."""

import asyncio
from typing import Any

from buddy.cluster.contract import Beat, Load
from buddy.cluster.fleet import Fleet, FleetListener, NodeRole
from buddy.log.contract import Lease

PATIENCE = 20.0
BEATS = 6


class StuckNode:
    """Placement, requests and sessions of a node, none of which ever answers; each second beat fails."""

    def __init__(self) -> None:
        self.beats = 0
        self.stuck: list[str] = []
        self.beaten_often = asyncio.Event()

    async def join(self) -> None: ...

    async def leave(self) -> None: ...

    async def close(self) -> None: ...

    async def serve_waiting(self, serve: object) -> None:
        del serve

    async def beat(self, load: Load) -> Beat:
        del load
        self.beats += 1
        if self.beats == BEATS:
            self.beaten_often.set()
        if self.beats % 2 == 0:
            raise KeyError("a mistake")
        return Beat("ready", {}, 0)

    async def nodes(self) -> list[Any]:
        return [] if self.beats == 0 else await self._wait("nodes")

    async def release(self, lease: Lease, *, resume: bool, due: int | None) -> None:
        del resume, due
        await self._wait(lease.session_id)

    async def drop(self, session_id: str) -> None:
        await self._wait(session_id)

    def epochs(self) -> dict[str, int]:
        return {} if "sess_lost" in self.stuck else {"sess_lost": 1}

    def runs(self) -> int:
        return 0

    def load(self) -> Load:
        return Load()

    def count_leaked(self, held: dict[str, int]) -> list[Lease]:
        del held
        return []

    def wanted(self) -> set[str]:
        return set()

    async def _wait(self, what: str) -> Any:
        self.stuck.append(what)
        await asyncio.Event().wait()


async def test_a_node_beats_whatever_else_is_slow_or_fails() -> None:
    node: Any = StuckNode()
    role = NodeRole(name="a", is_daemon=False, is_worker=True, capacity=lambda: 1, lease_seconds=0.04)
    fleet = Fleet(role, node, node, node, node.serve_waiting, FleetListener())
    await fleet.start()
    try:
        async with asyncio.timeout(PATIENCE):
            await node.beaten_often.wait()
    finally:
        await fleet.close()
    assert sorted(node.stuck) == ["nodes", "sess_lost"]
