"""What a daemon computes for a turn and for a session, in instructions: the same on a busy machine as on a quiet one.

`python -m bench.instructions` needs valgrind. The daemon runs under callgrind, which counts what it executes outside of
the kernel, in all its threads; after a first round that loads everything, sessions of few and of many turns are played,
and the difference between them tells the one from the other. Two runs differ by about one in a hundred.
"""

import asyncio
import shutil
import subprocess
import sys
from pathlib import Path

from bench.agents import READ, Daemon
from bench.servers import play
from bench.stage import Stage

SESSIONS, FEW, MANY = 5, 2, 42


def main() -> int:
    if not shutil.which("valgrind"):
        print("error: valgrind is not installed; your system's packages have it", file=sys.stderr)
        return 69
    with Stage() as stage:
        turn, session = asyncio.run(_count(stage))
    print(f"a turn with a read: {turn:,.0f} thousand instructions")
    print(f"a session, from its start to its first request: {session:,.0f} thousand")
    return 0


async def _count(stage: Stage) -> tuple[float, float]:
    kept = stage.new_folder("counts") / "counts"
    callgrind = ["valgrind", "-q", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={kept}"]
    with Daemon(stage, before=[*callgrind, sys.executable]) as daemon:
        await _play(stage, daemon, FEW)
        _control(daemon, "--instr=on")
        counts: list[int] = []
        for turns in (FEW, MANY):
            await _play(stage, daemon, turns)
            _control(daemon, "--dump")
            counts.append(_total(kept.with_name(f"{kept.name}.{len(counts) + 1}")))
    few, many = (count / SESSIONS / 1000 for count in counts)
    turn = (many - few) / (MANY - FEW)
    return turn, few - FEW * turn


async def _play(stage: Stage, daemon: Daemon, turns: int) -> None:
    scripts = [stage.script(turns=turns, call=READ.name, arguments=READ.arguments) for _ in range(SESSIONS)]
    await play(stage, daemon, scripts)


def _control(daemon: Daemon, request: str) -> None:
    subprocess.run(["callgrind_control", request, str(daemon.pid)], check=True, capture_output=True)


def _total(counts: Path) -> int:
    with counts.open(errors="replace") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith(("summary:", "totals:")))


if __name__ == "__main__":
    sys.exit(main())
