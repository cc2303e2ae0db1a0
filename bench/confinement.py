"""What confinement adds to a shell call: the same command on the host and in the sandbox, in one process."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter

from bench.benchmarks import Benchmark, Contender
from bench.figures import Metric, Sample
from bench.setup import BenchmarkError, Setup
from buddy.targets.choose import OwnDirectories, TargetRequest, choose
from buddy.targets.contract import Target

# The first is known to only read, to leave no process behind and to use no socket, which saves precautions.
COMMANDS = {"confined-plain": "true", "confined": "sh -c :"}
PAUSE = 0.05
"""Seconds in which nothing happens, as while a model thinks: then, entering a control group takes longer."""


def confined(setup: Setup) -> Iterator[Contender]:
    times, home = 20 if setup.quick else 100, setup.new_folder("confined")
    work = home / "work"
    for folder in (work, home / "state"):
        folder.mkdir(parents=True, exist_ok=True)
    own = OwnDirectories(home / "config", home / "state", home / "run")

    def run(level: str) -> Sample:
        target = choose(TargetRequest("local", str(work), level), own).target
        found = {key: asyncio.run(_calls(target, work, command, times)) for key, command in COMMANDS.items()}
        return {**found, "confined-idle": asyncio.run(_calls(target, work, COMMANDS["confined"], times // 5, PAUSE))}

    yield Contender("host", "floor", lambda: run("host"))
    yield Contender("confined", "buddy", lambda: run("confined"))


async def _calls(target: Target, work: Path, command: str, times: int, pause: float = 0.0) -> list[float]:
    async def ignore(_stream: object, _chunk: bytes) -> None:
        """The command prints nothing."""

    async def call() -> None:
        done = await target.run(command, cwd=str(work), nonce="bench", on_output=ignore)
        if done.exit_code != 0:
            raise BenchmarkError(f"a call on {target.name} ended with {done.exit_code}")

    await call()  # the self-test
    samples: list[float] = []
    for _ in range(times):
        await asyncio.sleep(pause)
        began = perf_counter()
        await call()
        samples.append((perf_counter() - began) * 1000)
    return samples


BENCHMARKS = (
    Benchmark(
        "confined",
        (
            Metric("confined-plain", "shell call in the sandbox, `true`", "ms", "≤ host + 10", tail=True),
            Metric("confined", "the same, `sh -c :`", "ms", "≤ host + 10", tail=True),
            Metric("confined-idle", "the same after a pause of 50 ms", "ms", "≤ host + 10", tail=True),
        ),
        confined,
    ),
)
