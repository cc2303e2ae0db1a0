"""CPU instructions of a daemon per turn and per session: independent of how busy the machine is.

`python -m bench.instructions` needs valgrind. The daemon runs under callgrind, which counts what it executes outside of
the kernel, in all its threads; after a first round that loads everything, sessions of few and of many turns are played,
and the difference between them tells the one from the other. Two runs differ by about one in two hundred.
"""

import asyncio
import shutil
import subprocess
import sys
from pathlib import Path

from bench.agents import READ, Daemon
from bench.servers import play
from bench.setup import Setup, cpu_seconds

SESSIONS, FEW, MANY = 5, 2, 42
IDLE = 0.05  # seconds of CPU in one: heartbeats are left
SLOW_CLOCK = str(Path(__file__).with_name("slow_clock.py"))


def main() -> int:
    if not shutil.which("valgrind"):
        print("error: valgrind is not installed; install it with your system's package manager", file=sys.stderr)
        return 69
    with Setup() as setup:
        turn, session = asyncio.run(_count(setup))
    print(f"a turn with a read: {turn:,.0f} thousand instructions")
    print(f"a session, from its start to its first request: {session:,.0f} thousand")
    return 0


async def _count(setup: Setup) -> tuple[float, float]:
    kept = setup.new_folder("counts") / "counts"
    callgrind = ["valgrind", "-q", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={kept}"]
    with Daemon(setup, before=[*callgrind, sys.executable, SLOW_CLOCK]) as daemon:
        await _play(setup, daemon, FEW)
        await _wait_until_idle(daemon)
        _control(daemon, "--instr=on")
        counts: list[int] = []
        for turns in (FEW, MANY):
            await _play(setup, daemon, turns)
            await _wait_until_idle(daemon)
            _control(daemon, "--dump")
            counts.append(_total(kept.with_name(f"{kept.name}.{len(counts) + 1}")))
    few, many = (count / SESSIONS / 1000 for count in counts)
    turn = (many - few) / (MANY - FEW)
    return turn, few - FEW * turn


async def _play(setup: Setup, daemon: Daemon, turns: int) -> None:
    scripts = [setup.script(turns=turns, call=READ.name, arguments=READ.arguments) for _ in range(SESSIONS)]
    await play(setup, daemon, scripts)


async def _wait_until_idle(daemon: Daemon) -> None:
    """What was said is indexed a moment later, and counts, too."""
    async with asyncio.timeout(60):
        before = -1.0
        while (now := cpu_seconds(daemon.pid)) - before > IDLE:
            before = now
            await asyncio.sleep(1)


def _control(daemon: Daemon, request: str) -> None:
    subprocess.run(["callgrind_control", request, str(daemon.pid)], check=True, capture_output=True)


def _total(counts: Path) -> int:
    with counts.open(errors="replace") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith(("summary:", "totals:")))


if __name__ == "__main__":
    sys.exit(main())
