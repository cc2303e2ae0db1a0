"""`python -m bench.energy [SECONDS]`: what waiting costs: CPU per minute and wake-ups per second of what is left open.

Everything is started, left alone for a moment, and observed over the same SECONDS (30). A wake-up is a voluntary
context switch of any thread: it slept, and something woke it. Floors: an `asyncio` process that sleeps, and a page of
one line in the same browser. Printed, not asserted; the machine decides.
"""

import argparse
import asyncio
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from msgspec import Struct

from bench.agents import Daemon, configure
from bench.console import ARGUMENTS, CHROMIUM, ConsoleDaemon, plain_server
from bench.figures import number
from bench.growing.cpu import cpu_of
from bench.page import write
from bench.setup import BUDDY, Setup
from bench.wire import Wire
from tests.harness.home import Home
from tests.harness.scripts import shell
from tests.harness.terminal import Tmux

MARKER = "energy"
SETTLE_SECONDS = 8.0
CROWD = 100
SLEEPER = "import asyncio; asyncio.run(asyncio.sleep(1e6))"
INITIALIZE = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": 1}}


class Observed(Struct, frozen=True):
    """Something that is left open: its processes, and the name of what is its floor."""

    name: str
    pids: Sequence[int]
    floor: str = "asyncio that sleeps"


class Cost(Struct, frozen=True):
    """Milliseconds of CPU per minute, and wake-ups per second."""

    cpu: float
    wakeups: float


def main() -> None:
    parser = argparse.ArgumentParser("python -m bench.energy", description="Measure what waiting costs.")
    parser.add_argument("seconds", type=float, nargs="?", default=30.0, metavar="SECONDS", help="how long (default 30)")
    parser.add_argument("--no-browser", action="store_true", help="leave out the console's page")
    parser.add_argument("--write", action="store_true", help="write the table to docs/performance.md")
    options = parser.parse_args()
    with ExitStack() as cleanup:
        setup = cleanup.enter_context(Setup())
        observed = [*_programs(setup, cleanup), *_terminals(setup, cleanup)]
        if not options.no_browser:
            observed += _pages(setup, cleanup)
        costs = observe(observed, options.seconds)
    lines = table(observed, costs)
    print("\n".join(lines))
    if options.write:
        write(lines, ".venv/bin/python -m bench.energy", MARKER)


def observe(observed: Sequence[Observed], seconds: float, settle: float = SETTLE_SECONDS) -> list[Cost]:
    time.sleep(settle)
    before = [(_cpu(one), _wakeups(one)) for one in observed]
    time.sleep(seconds)
    found: list[Cost] = []
    for one, (cpu, wakeups) in zip(observed, before, strict=True):
        found.append(Cost((_cpu(one) - cpu) * 60_000 / seconds, (_wakeups(one) - wakeups) / seconds))
    return found


def table(observed: Sequence[Observed], costs: Sequence[Cost]) -> list[str]:
    by_name = {one.name: cost for one, cost in zip(observed, costs, strict=True)}
    lines = ["| left open | CPU, ms per minute | wake-ups per second | floor: CPU, wake-ups |", "|---|---|---|---|"]
    for one in observed:
        cost, floor = by_name[one.name], by_name[one.floor]
        least = "-" if one.name == one.floor else f"{number(floor.cpu)}, {number(floor.wakeups)}"
        lines.append(f"| {one.name} | {number(cost.cpu)} | {number(cost.wakeups)} | {least} |")
    return lines


def _cpu(one: Observed) -> float:
    return sum(cpu_of(pid) for pid in one.pids)


def _wakeups(one: Observed) -> int:
    """Of the threads that live; those of a pool that ended meanwhile are not in it."""
    total = 0
    for pid in one.pids:
        for status in Path(f"/proc/{pid}/task").glob("*/status"):
            found = re.search(r"^voluntary_ctxt_switches:\s+(\d+)", status.read_text(), re.MULTILINE)
            total += int(found[1]) if found else 0
    return total


def _programs(setup: Setup, cleanup: ExitStack) -> Iterator[Observed]:
    yield Observed("asyncio that sleeps", [setup.start([sys.executable, "-c", SLEEPER]).pid])
    yield Observed("daemon, nothing attached", [cleanup.enter_context(Daemon(setup)).pid])
    crowd = cleanup.enter_context(Daemon(setup))
    loop = asyncio.new_event_loop()
    cleanup.callback(loop.close)
    wires = [loop.run_until_complete(_attach(setup, crowd)) for _ in range(CROWD)]
    cleanup.callback(lambda: [wire.close() for wire, _ in wires])
    yield Observed(f"daemon, {CROWD} idle sessions with a client each", [crowd.pid])
    home = setup.new_folder("home")
    daemon = cleanup.enter_context(Daemon(setup, home))
    wire, session_id = loop.run_until_complete(_attach(setup, daemon))
    cleanup.callback(wire.close)
    places = configure(setup, home)
    yield Observed("`buddy attach`, idle session", [setup.start([BUDDY, "attach", session_id, *places]).pid])
    editor = setup.start([BUDDY, "acp", *places], stdin=subprocess.PIPE)
    assert editor.stdin is not None
    editor.stdin.write(json.dumps(INITIALIZE).encode() + b"\n")
    editor.stdin.flush()
    yield Observed("`buddy acp`, idle", [editor.pid])


async def _attach(setup: Setup, daemon: Daemon) -> tuple[Wire, str]:
    wire = await Wire.connect(daemon.socket)
    return wire, await wire.start(setup.new_folder("work"))


def _terminals(setup: Setup, cleanup: ExitStack) -> Iterator[Observed]:
    for name, asks in (("REPL, idle", False), ("REPL at an approval", True)):
        home = Home(setup.new_folder("user") / "home")
        home.script(shell("touch ran"), {"text": "over"})
        cleanup.callback(home.run, "daemon", "stop")
        terminal = cleanup.enter_context(Tmux(home))
        terminal.wait_for("(shift-tab)")
        if asks:
            terminal.enter("go")
            terminal.wait_for("1 Yes")
        yield Observed(name, [terminal.process])


def _pages(setup: Setup, cleanup: ExitStack) -> Iterator[Observed]:
    from playwright.sync_api import sync_playwright

    playwright = cleanup.enter_context(sync_playwright())
    daemon = ConsoleDaemon(setup, 100)
    known = _browsers()
    floor = "a page of one line, browser"
    pages = ((floor, plain_server(setup), "p"), ("open console page, browser", daemon.link(), ".row"))
    for name, address, shown in pages:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        cleanup.callback(browser.close)
        page = browser.new_page()
        page.goto(address)
        page.wait_for_selector(shown)
        yield Observed(name, sorted(_browsers() - known), floor)
        known = _browsers()
    yield Observed("open console page, daemon", [daemon.pid])


def _browsers() -> set[int]:
    """The processes of the browsers that this one started."""
    parents: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    return {pid for pid in parents if _is_below(pid, parents) and _is_browser(pid)}


def _is_below(pid: int, parents: dict[int, int]) -> bool:
    while pid in parents and pid != os.getpid():
        pid = parents[pid]
    return pid == os.getpid()


def _is_browser(pid: int) -> bool:
    try:
        return "chrom" in Path(f"/proc/{pid}/comm").read_text()
    except OSError:
        return False


if __name__ == "__main__":
    main()
