"""Tools of MCP servers: the first run, which asks the servers for them, another one, and a turn that calls one.

The floor is the same with one tool.
"""

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path

from bench.agents import Daemon
from bench.growing.cpu import cpu_of
from bench.growing.figures import Figure, Part
from bench.setup import Setup
from bench.wire import Wire

SIZES = (10, 100, 1_000)
SERVERS = 4
TURNS = 10
TAKES = 3
SERVER = Path(__file__).with_name("tool_server.py")


def measure(setup: Setup, count: int) -> Iterator[Figure]:
    floors = _least(setup, 1)
    for (work, value), (_, floor) in zip(_least(setup, count), floors, strict=True):
        yield Figure(work, "ms", value, floor)


def _least(setup: Setup, count: int) -> list[tuple[str, float]]:
    takes = [asyncio.run(_take(setup, count)) for _ in range(1 if setup.quick else TAKES)]
    return [(work, min(take[at][1] for take in takes)) for at, (work, _) in enumerate(takes[0])]


async def _take(setup: Setup, count: int) -> list[tuple[str, float]]:
    with Daemon(setup, more=_configure(count)) as daemon:
        wire = await Wire.connect(daemon.socket)

        async def run(**script: object) -> float:
            """In a folder of its own: the model follows the first script that it sees, also in memory."""
            session_id = await wire.start(setup.new_folder("work"))
            began = cpu_of(daemon.pid)
            await wire.send(session_id, setup.script(**script).prompt())
            await wire.wait_over(session_id)
            return (cpu_of(daemon.pid) - began) * 1000

        first = await run()
        again = await run()
        called = await run(turns=TURNS, call="mcp__bench0__look_0", arguments=json.dumps({"text": "this"}))
        wire.close()
    return [
        ("the first run of a daemon", first),
        ("a run of one answer", again),
        ("a turn that calls one", (called - again) / TURNS),
    ]


def _configure(count: int) -> str:
    """Servers that have `count` tools together."""
    servers = min(SERVERS, count)
    return "".join(
        f"[mcp.servers.bench{number}]\ncommand = {json.dumps(sys.executable)}\n"
        f"args = {json.dumps([str(SERVER), str(count // servers)])}\n"
        for number in range(servers)
    )


PART = Part("tools", "tools of servers", SIZES, measure)
