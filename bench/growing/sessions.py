"""Sessions on disk: the daemon's start, its list, search and attach, and the commands that look at all of them.

The floor of a request is a ping, that of a command is `--version`, that of a start is a start over an empty state.
"""

import asyncio
from collections.abc import Iterator
from pathlib import Path

from bench.agents import Daemon, configure
from bench.growing.cpu import cpu_of, least_cpu_of
from bench.growing.figures import Figure, Part
from bench.growing.state import copy_home, make_home, multiply
from bench.setup import BUDDY, Setup, end
from bench.wire import Message, Wire

SIZES = (1_000, 10_000, 100_000)
REQUESTS = 20
STARTS = 3


def measure(setup: Setup, count: int) -> Iterator[Figure]:
    first, session_id = make_home(setup)
    home = copy_home(setup, first)
    multiply(home, session_id, count)
    yield Figure("daemon, start → ready", "ms", _start(setup, home), _start(setup, setup.new_folder("home")))
    with Daemon(setup, home) as daemon:
        yield from asyncio.run(_ask(daemon, count))
    yield from _commands(setup, home)


def _start(setup: Setup, home: Path) -> float:
    found: list[float] = []
    for _ in range(_takes(setup)):
        daemon = Daemon(setup, home)
        found.append(cpu_of(daemon.pid) * 1000)
        end(daemon.process)
    return min(found)


async def _ask(daemon: Daemon, count: int) -> list[Figure]:
    wire = await Wire.connect(daemon.socket)

    async def take(kind: str, payload: Message) -> float:
        return await least_cpu_of(daemon.pid, lambda: wire.ask(kind, payload), times=REQUESTS)

    async def attach() -> None:
        session_id = f"sess_{next(oldest):026d}"
        await wire.attach(session_id, 1_000_000)

    floor = await take("ping", {})
    folder = (await wire.ask("list_sessions", {"limit": 200}))["sessions"][-1]["repo"]["rootPath"]
    asked: list[tuple[str, Message]] = [
        ("list the newest 20", {"limit": 20}),
        ("list those of one folder", {"limit": 20, "rootPath": folder}),
        ("list those that wait for approval", {"limit": 20, "state": "awaiting_approval"}),
        ("search for a word in a title", {"limit": 20, "query": f"module {count // 2}"}),
    ]
    figures = [Figure(work, "ms", await take("list_sessions", payload), floor) for work, payload in asked]
    oldest = iter(range(count - 1, 0, -1))
    figures.append(
        Figure("attach to an old one", "ms", await least_cpu_of(daemon.pid, attach, 3, min(10, count // 4)), floor)
    )
    wire.close()
    return figures


def _commands(setup: Setup, home: Path) -> Iterator[Figure]:
    floor = _command(setup, "--version")
    places = configure(setup, home)
    for arguments in (("session", "list", "--all"), ("storage",), ("doctor",)):
        yield Figure(f"`buddy {' '.join(arguments)}`", "ms", _command(setup, *arguments, *places), floor)


def _command(setup: Setup, *arguments: str) -> float:
    return min(setup.run([BUDDY, *arguments]).cpu for _ in range(_takes(setup))) * 1000


def _takes(setup: Setup) -> int:
    return 1 if setup.quick else STARTS


PART = Part("sessions", "sessions on disk", SIZES, measure)
