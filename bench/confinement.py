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


def confined(setup: Setup) -> Iterator[Contender]:
    times, home = 20 if setup.quick else 100, setup.new_folder("confined")
    work = home / "work"
    for folder in (work, home / "state"):
        folder.mkdir(parents=True, exist_ok=True)
    own = OwnDirectories(home / "config", home / "state", home / "run")

    def run(level: str) -> Sample:
        target = choose(TargetRequest("local", str(work), level), own).target
        return {"confined": asyncio.run(_calls(target, work, times))}

    yield Contender("host", "floor", lambda: run("host"))
    yield Contender("confined", "buddy", lambda: run("confined"))


async def _calls(target: Target, work: Path, times: int) -> list[float]:
    async def ignore(_stream: object, _chunk: bytes) -> None:
        """The command prints nothing."""

    async def call() -> None:
        # Not a command that is known to leave nothing behind: most are not.
        done = await target.run("python3 -c ''", cwd=str(work), nonce="bench", on_output=ignore)
        if done.exit_code != 0:
            raise BenchmarkError(f"a call on {target.name} ended with {done.exit_code}")

    await call()  # the self-test
    samples: list[float] = []
    for _ in range(times):
        began = perf_counter()
        await call()
        samples.append((perf_counter() - began) * 1000)
    return samples


BENCHMARKS = (
    Benchmark(
        "confined", (Metric("confined", "shell call in the sandbox", "ms", "≤ 3x the host", tail=True),), confined
    ),
)
