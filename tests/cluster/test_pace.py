"""How many sessions a node takes at a time, counted."""

import asyncio
from collections.abc import Sequence
from typing import Any

from buddy.cluster.contract import Beat, Load, Taken
from buddy.cluster.fleet import Fleet, FleetListener, NodeRole
from buddy.cluster.pace import FIRST_WINDOW, LARGEST_WINDOW, TakePace
from buddy.log.contract import Lease

PATIENCE = 20.0
SESSIONS = 200


def test_a_node_takes_more_only_as_it_opens_what_it_took() -> None:
    pace = TakePace(1.5, lambda: 0.0)
    assert pace.limit(1000, 0) == FIRST_WINDOW
    assert pace.limit(1000, FIRST_WINDOW) == 0
    for _ in range(FIRST_WINDOW):
        pace.note_opened()
    assert pace.limit(1000, 0) == 2 * FIRST_WINDOW
    assert pace.limit(3, 1) == 2
    for _ in range(1000):
        pace.note_opened()
    assert pace.limit(1000, 0) == LARGEST_WINDOW
    pace.note_nothing_waits()
    assert pace.limit(1000, 0) == FIRST_WINDOW


def test_a_node_whose_beats_are_late_takes_nothing() -> None:
    now = 0.0
    pace = TakePace(1.5, lambda: now)
    pace.note_opened()
    now = 1.0
    pace.note_beat()
    assert pace.limit(1000, 0) == FIRST_WINDOW + 1
    now = 3.0  # no beat for two seconds
    assert pace.limit(1000, 0) == 0
    pace.note_beat()  # one came, late: the next one tells whether it is over
    assert pace.limit(1000, 0) == 0
    now = 3.7
    pace.note_beat()
    assert pace.limit(1000, 0) == FIRST_WINDOW


class CrowdedFleet:
    """Placement, requests and sessions of a node that sees all sessions of another which was lost."""

    def __init__(self) -> None:
        self.left = SESSIONS
        self.opening = 0
        self.taken: list[int] = []
        self.most_at_once = 0
        self.all_open = asyncio.Event()

    async def join(self) -> None: ...

    async def leave(self) -> None: ...

    async def close(self) -> None: ...

    async def serve_waiting(self, serve: object) -> None:
        del serve

    async def beat(self, load: Load) -> Beat:
        del load
        return Beat("ready", {}, 0)

    async def nodes(self) -> list[Any]:
        return []

    async def take(self, limit: int) -> Sequence[Taken]:
        number = min(limit, self.left)
        self.left -= number
        if number:
            self.taken.append(number)
        self.opening += number
        self.most_at_once = max(self.most_at_once, self.opening)
        return [Taken(Lease(f"sess_{self.left + one}", 1, "me"), "lost_node") for one in range(number)]

    async def adopt(self, lease: Lease) -> None:
        del lease
        await asyncio.sleep(0.01)
        self.opening -= 1
        if self.opening == self.left == 0:
            self.all_open.set()

    def epochs(self) -> dict[str, int]:
        return {}

    def load(self) -> Load:
        return Load()

    def count_leaked(self, held: dict[str, int]) -> list[Lease]:
        del held
        return []


async def test_the_sessions_of_a_lost_node_are_not_taken_all_at_once() -> None:
    node: Any = CrowdedFleet()
    role = NodeRole(name="a", is_daemon=True, is_worker=True, capacity=lambda: 1000, lease_seconds=60.0)
    fleet = Fleet(role, node, node, node, node.serve_waiting, FleetListener())
    await fleet.start()
    try:
        async with asyncio.timeout(PATIENCE):
            await node.all_open.wait()  # without waiting for a poll: what was opened makes room
    finally:
        await fleet.close()
    assert sum(node.taken) == SESSIONS
    assert node.taken[0] == FIRST_WINDOW
    opened = 0
    for number in node.taken:
        assert number <= FIRST_WINDOW + opened
        opened += number
    assert node.most_at_once <= SESSIONS // 2 + FIRST_WINDOW
