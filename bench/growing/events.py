"""Events of one session: opening it, attaching to its end, reading all of it, and a run after it was opened.

The floor is the same with a session of one run.
"""

import asyncio
from collections.abc import Iterator
from pathlib import Path

from bench.agents import Daemon
from bench.growing.cpu import cpu_of
from bench.growing.figures import Figure, Part
from bench.growing.state import copy_home, lengthen, make_home
from bench.setup import Setup, resident
from bench.wire import Wire

SIZES = (10_000, 100_000, 1_000_000)
TAKES = 3
MIB = 1024 * 1024


def measure(setup: Setup, count: int) -> Iterator[Figure]:
    first, session_id = make_home(setup)
    long = copy_home(setup, first)
    lengthen(long, session_id, count)
    floors = _least(setup, first, session_id, 0)
    for (work, unit, value), (_, _, floor) in zip(_least(setup, long, session_id, count), floors, strict=True):
        yield Figure(work, unit, value, floor)


def _least(setup: Setup, home: Path, session_id: str, count: int) -> list[tuple[str, str, float]]:
    takes = [
        asyncio.run(_take(setup, copy_home(setup, home), session_id, count)) for _ in range(1 if setup.quick else TAKES)
    ]
    return [(work, unit, min(take[at][2] for take in takes)) for at, (work, unit, _) in enumerate(takes[0])]


async def _take(setup: Setup, home: Path, session_id: str, count: int) -> list[tuple[str, str, float]]:
    with Daemon(setup, home) as daemon:
        before, began = resident(daemon.pid), cpu_of(daemon.pid)
        wire = await Wire.connect(daemon.socket)
        await wire.attach(session_id, 1_000_000_000)
        opened, memory = (cpu_of(daemon.pid) - began) * 1000, (resident(daemon.pid) - before) / MIB
        wire.close()
        # Another client, whose cursor is near the end, as after a lost connection.
        began = cpu_of(daemon.pid)
        late = await Wire.connect(daemon.socket)
        await late.attach(session_id, max(0, count - 100))
        attached = (cpu_of(daemon.pid) - began) * 1000
        began = cpu_of(daemon.pid)
        await late.send(session_id, setup.script().prompt())
        await late.wait_over(session_id)
        sent = (cpu_of(daemon.pid) - began) * 1000
        late.close()
    return [
        ("open a session", "ms", opened),
        ("the same, memory", "MiB", memory),
        ("attach near the end of an open one", "ms", attached),
        ("its next run, of one answer", "ms", sent),
    ]


PART = Part("events", "events of a session", SIZES, measure)
