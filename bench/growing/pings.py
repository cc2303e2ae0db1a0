"""`python -m bench.growing.pings`: the longest ping of another client while a daemon works at the largest sizes.

This is wall time, so it says little on a busy machine; compare it with the first line, in which nothing else happens.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

from bench.agents import Daemon
from bench.figures import number
from bench.growing.rules import made_up, write_rules
from bench.growing.state import copy_home, make_home, multiply
from bench.pauses import pinging
from bench.setup import Setup
from bench.wire import Message, Wire

SESSIONS = 100_000
RULES = 10_000
CLIENTS = 1_000
AROUND = 0.2
"""Seconds of pings before and after the work."""

Line = tuple[str, float]


async def longest(daemon: Daemon, work: Callable[[], Awaitable[object]]) -> float:
    async with pinging(daemon) as took:
        await asyncio.sleep(AROUND)
        await work()
        await asyncio.sleep(AROUND)
    return max(took)


async def among_sessions(setup: Setup) -> AsyncIterator[Line]:
    first, session_id = await asyncio.to_thread(make_home, setup)
    home = copy_home(setup, first)
    multiply(home, session_id, SESSIONS)
    with Daemon(setup, home) as daemon:
        wire = await Wire.connect(daemon.socket)
        yield "nothing", await longest(daemon, lambda: asyncio.sleep(AROUND))
        asked: tuple[tuple[str, Message], ...] = (
            ("list the newest 20 sessions", {"limit": 20}),
            ("list those that wait for approval", {"limit": 20, "state": "awaiting_approval"}),
            ("search for a word in a title", {"limit": 20, "query": f"module {SESSIONS // 2}"}),
        )
        for name, payload in asked:
            yield name, await longest(daemon, lambda payload=payload: wire.ask("list_sessions", payload))
        wire.close()


async def with_rules(setup: Setup) -> AsyncIterator[Line]:
    with Daemon(setup, more=f"{write_rules(made_up(RULES))}\n") as daemon:
        wire = await Wire.connect(daemon.socket)
        await wire.start(setup.new_folder("work"))  # the first one imports modules

        async def run() -> None:
            session_id = await wire.start(setup.new_folder("work"))
            await wire.send(session_id, setup.script().prompt())
            await wire.wait_over(session_id)

        yield f"start a session and a run with {RULES:,} rules", await longest(daemon, run)
        wire.close()


async def with_clients(setup: Setup) -> AsyncIterator[Line]:
    with Daemon(setup) as daemon:
        wires = [await Wire.connect(daemon.socket) for _ in range(CLIENTS)]
        session_id = await wires[0].start(setup.new_folder("work"))
        for wire in wires:
            await wire.ask("watch_sessions", {"limit": 1})

        async def rename() -> None:
            await wires[0].ask("rename_session", {"title": "another"}, session_id)
            for wire in wires:
                await wire.rows.get()

        async def leave() -> None:
            for wire in wires:
                wire.close()
            await asyncio.sleep(AROUND)

        yield f"{CLIENTS:,} clients see a new name", await longest(daemon, rename)
        yield "all of them leave", await longest(daemon, leave)


async def main() -> None:
    with Setup(quick=False) as setup:
        for part in (among_sessions, with_rules, with_clients):
            async for work, ping in part(setup):
                print(f"{work}: {number(ping)} ms", flush=True)


if __name__ == "__main__":
    asyncio.run(main())
