"""Clients of one daemon, each with a session of its own: what one more costs, and what all of them cost the others.

The floor is the same with one client.
"""

import asyncio
from collections.abc import Iterator

from bench.agents import Daemon
from bench.growing.cpu import cpu_of, least_cpu_of
from bench.growing.figures import Figure, Part
from bench.setup import Setup, resident
from bench.wire import PATIENCE, Wire

SIZES = (10, 100, 1_000)
TAKES = 5
PINGS = 20
LEAVING = 3
MIB = 1024 * 1024


def measure(setup: Setup, count: int) -> Iterator[Figure]:
    floors = asyncio.run(_take(setup, 1))
    for (work, unit, value), (_, _, floor) in zip(asyncio.run(_take(setup, count)), floors, strict=True):
        yield Figure(work, unit, value, floor)


async def _take(setup: Setup, count: int) -> list[tuple[str, str, float]]:
    with Daemon(setup) as daemon:
        await _attach(setup, daemon)  # what the first session imports is not counted
        before = resident(daemon.pid)
        attached = [await _attach(setup, daemon) for _ in range(count)]
        memory = (resident(daemon.pid) - before) / MIB
        one, session_id = attached[-1]
        number = 0

        async def come() -> None:
            wire = await Wire.connect(daemon.socket)
            wire.close()

        async def run() -> None:
            await one.send(session_id, setup.script().prompt())
            await one.wait_over(session_id)

        async def rename() -> None:
            """The new name is in the list of each of them."""
            nonlocal number
            number += 1
            await one.ask("rename_session", {"title": f"name {number}"}, session_id)
            async with asyncio.timeout(PATIENCE):
                for wire, _ in attached:
                    await wire.rows.get()

        figures = [
            ("ping", "ms", await least_cpu_of(daemon.pid, lambda: one.ask("ping", {}), TAKES, PINGS)),
            ("one more comes and leaves", "ms", await least_cpu_of(daemon.pid, come, TAKES)),
            ("a run of one answer", "ms", await least_cpu_of(daemon.pid, run, TAKES)),
        ]
        for wire, _ in attached:
            await wire.ask("watch_sessions", {"limit": 1})
        figures.append(("a session is renamed, and all watch the list", "ms", await least_cpu_of(daemon.pid, rename)))
        figures.append(("memory of all, with their sessions", "MiB", memory))
        figures.append(("all of them leave", "ms", await _leave(setup, daemon, [wire for wire, _ in attached])))
    return figures


async def _leave(setup: Setup, daemon: Daemon, wires: list[Wire]) -> float:
    """The least of several takes, each with as many new clients."""
    others = await Wire.connect(daemon.socket)
    found: list[float] = []
    for take in range(LEAVING):
        before = cpu_of(daemon.pid)
        for wire in wires:
            wire.close()
        while (await others.ask("daemon_status", {}))["connections"] > 2:  # noqa: ASYNC110 - nothing announces it
            await asyncio.sleep(0.01)
        found.append((cpu_of(daemon.pid) - before) * 1000)
        if take < LEAVING - 1:
            wires = [(await _attach(setup, daemon))[0] for _ in wires]
            for wire in wires:
                await wire.ask("watch_sessions", {"limit": 1})
    others.close()
    return min(found)


async def _attach(setup: Setup, daemon: Daemon) -> tuple[Wire, str]:
    wire = await Wire.connect(daemon.socket)
    return wire, await wire.start(setup.new_folder("work"))


PART = Part("clients", "clients, a session each", SIZES, measure)
