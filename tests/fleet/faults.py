"""What happens to a fleet while people use it: nodes are killed, paused, drained and stopped, and servers fail.

Invariants: one node stays healthy; whatever was done to a node or a server is undone before `go_on` returns.
"""

import asyncio
import math
import random
import signal
import time
from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct

from tests.fleet.nodes import FleetOf
from tests.harness.clients import wire_client
from tests.harness.postgres import Postgres
from tests.harness.processes import PATIENCE
from tests.harness.temporal import Temporal

LEASE_SECONDS = 3.0
DATABASE, TEMPORAL = "the database", "Temporal"
NO_DATABASE = 75
"""The exit code of a daemon that cannot reach its log when it starts."""


class Fault(Struct):
    """From when to when it lasted, by the clock of events; `node` is a server's name for what happens to that."""

    kind: str
    node: str
    began: float
    ended: float = math.inf


class Faults:
    """Chooses from `kinds` at random, one every `seconds` on average."""

    def __init__(self, fleet: FleetOf, kinds: Sequence[str], seconds: float, chance: random.Random) -> None:
        self.history: list[Fault] = []
        self.drains: list[float] = []
        self._fleet = fleet
        self._kinds = kinds
        self._seconds = seconds
        self._chance = chance
        self._unwell: set[str] = set()
        self.standby: Postgres | None = None
        self.temporal: Temporal | None = None
        self._all: dict[str, Callable[[str], Awaitable[None]]] = {
            "kill": self._kill,
            "pause": self._pause,
            "drain": self._drain,
            "stop": self._stop,
        }
        self._of_servers: dict[str, tuple[str, Callable[[], Awaitable[None]]]] = {
            "connections": (DATABASE, self._end_connections),
            "database": (DATABASE, self._crash_database),
            "failover": (DATABASE, self._fail_over),
            "temporal": (TEMPORAL, self._crash_temporal),
            "silence": (TEMPORAL, self._pause_temporal),
        }

    async def go_on(self, until: float) -> None:
        """Let things happen until then, and wait until all is well again."""
        first = list(self._kinds)  # each kind once before the choice is free: a short run has them all
        async with asyncio.TaskGroup() as group:
            while True:
                await asyncio.sleep(self._chance.uniform(0, 2) * self._seconds)
                if time.monotonic() >= until:
                    return
                kind = first[0] if first else self._chance.choice(self._kinds)
                if self._begin(group, kind) and first:
                    first.pop(0)

    def remove_servers(self) -> None:
        """End the database's servers, whichever they are by now."""
        for server in (self._fleet.server, self.standby):
            if server is not None:
                server.remove()

    def _begin(self, group: asyncio.TaskGroup, kind: str) -> bool:
        """Let something happen; False if there is nothing healthy that it could happen to."""
        if kind in self._of_servers:
            server, work = self._of_servers[kind]
            if server in self._unwell:
                return False
            group.create_task(self._happen(kind, server, work()))
            return True
        healthy = sorted(self._fleet.nodes.keys() - self._unwell)
        if len(healthy) < 2:
            return False
        name = self._chance.choice(healthy)
        group.create_task(self._happen(kind, name, self._all[kind](name)))
        return True

    async def _happen(self, kind: str, name: str, work: Awaitable[None]) -> None:
        self._unwell.add(name)
        fault = Fault(kind, name, time.time() * 1000)
        self.history.append(fault)
        await work
        fault.ended = time.time() * 1000
        self._unwell.discard(name)

    async def _kill(self, name: str) -> None:
        await asyncio.to_thread(self._fleet.nodes[name].kill)
        await asyncio.sleep(self._chance.uniform(0, 2) * LEASE_SECONDS)
        await self._restart(name)

    async def _pause(self, name: str) -> None:
        self._fleet.nodes[name].signal(signal.SIGSTOP)
        try:
            await asyncio.sleep(self._chance.uniform(1.2, 2) * LEASE_SECONDS)
        finally:
            self._fleet.nodes[name].signal(signal.SIGCONT)

    async def _drain(self, name: str) -> None:
        """As in a rolling upgrade: hand over, stop, start again."""
        async with wire_client(self._fleet.nodes[name], name="console") as client:
            await client.ask("drain_node", {"node": name})
            self.drains.append(await self._fleet.wait_state(client, name, "drained"))
        await self._stop(name)

    async def _stop(self, name: str) -> None:
        code = await asyncio.to_thread(self._fleet.nodes[name].stop)
        assert code in (0, 1), f"{name} ended with {code}: {self._fleet.nodes[name].output()}"
        await self._restart(name)

    async def _restart(self, name: str) -> None:
        """As a supervisor does it: again, if the database could not be reached."""
        async with asyncio.timeout(PATIENCE):
            while True:
                try:
                    return await asyncio.to_thread(self._fleet.restart, name)
                except AssertionError:
                    process = self._fleet.nodes[name].process
                    if process is None or process.poll() != NO_DATABASE:
                        raise
                await asyncio.sleep(0.5)

    async def _end_connections(self) -> None:
        await asyncio.to_thread(self._fleet.server.end_connections, self._fleet.url)

    async def _crash_database(self) -> None:
        await asyncio.to_thread(self._fleet.server.kill)
        await asyncio.sleep(self._chance.uniform(0, 1) * LEASE_SECONDS)
        await asyncio.to_thread(self._fleet.server.start)

    async def _fail_over(self) -> None:
        """The server dies, its standby takes its place, and gets a standby itself."""
        before, standby = self._fleet.server, self.standby
        assert standby is not None, "a failover needs a standby"
        await asyncio.to_thread(before.kill)
        await asyncio.to_thread(standby.promote)
        self._fleet.server = standby
        await asyncio.to_thread(before.remove)
        self.standby = await asyncio.to_thread(standby.add_standby, before.port)

    async def _crash_temporal(self) -> None:
        assert self.temporal is not None
        await asyncio.to_thread(self.temporal.kill)
        await asyncio.sleep(self._chance.uniform(0, 2) * LEASE_SECONDS)
        await asyncio.to_thread(self.temporal.start)

    async def _pause_temporal(self) -> None:
        assert self.temporal is not None
        self.temporal.pause()
        try:
            await asyncio.sleep(self._chance.uniform(1, 2) * LEASE_SECONDS)
        finally:
            self.temporal.resume()
