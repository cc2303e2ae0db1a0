"""What checkpoints add to a call that changes files: the same change with and without them, small and large."""

import asyncio
import itertools
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter

from bench.benchmarks import Benchmark, Contender
from bench.figures import Metric, Sample
from bench.setup import Setup
from buddy.checkpoints.checkpoints import Checkpoints
from buddy.checkpoints.contract import CallKey, Scope

FILES = 50_000
IN_FOLDER = 50
_numbers = itertools.count()


def checkpoints(setup: Setup) -> Iterator[Contender]:
    home = setup.new_folder("checkpoints")
    small, large = home / "small", home / "large"
    _make_repository(small, 5)
    _make_repository(large, 2000 if setup.quick else FILES)
    times = 10 if setup.quick else 50
    yield Contender("off", "floor", lambda: _without(small, large, times))
    yield Contender("on", "buddy", lambda: asyncio.run(_with(home, small, large, times)))


def _make_repository(folder: Path, files: int) -> None:
    """A repository with all its objects in a pack, as a clone has them."""
    for number in range(files):
        path = folder / f"d{number // IN_FOLDER}" / f"f{number}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{number}\n" * 500)
    env = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    identity = ("-c", "user.name=bench", "-c", "user.email=bench@example.org")
    for words in (("init", "-q"), ("add", "-A"), ("commit", "-q", "-m", "files"), ("repack", "-adq"), ("status",)):
        subprocess.run(["git", *identity, *words], cwd=folder, env=env, check=True, stdout=subprocess.DEVNULL)


def _change(folder: Path) -> None:
    (folder / "d0" / "f0.txt").write_text(f"{next(_numbers)}\n")


def _without(small: Path, large: Path, times: int) -> Sample:
    return {
        "checkpoint-call": [_timed(small) for _ in range(times)],
        "checkpoint-first": [_timed(large)],
        "checkpoint-unchanged": [_timed(large) for _ in range(3)],
    }


def _timed(folder: Path) -> float:
    began = perf_counter()
    _change(folder)
    return (perf_counter() - began) * 1000


async def _with(home: Path, small: Path, large: Path, times: int) -> Sample:
    state = home / "state"
    shutil.rmtree(state, ignore_errors=True)
    state.mkdir()
    store = Checkpoints(state)
    try:
        await _call(store, small)
        calls = [sum(await _call(store, small)) for _ in range(times)]
        first, _ = await _call(store, large)
        unchanged = [(await _call(store, large))[0] for _ in range(3)]
    finally:
        await store.close()
    return {"checkpoint-call": calls, "checkpoint-first": [first], "checkpoint-unchanged": unchanged}


async def _call(store: Checkpoints, folder: Path) -> tuple[float, float]:
    """How long a call waits before it starts, and how long what it changed is looked for while the model goes on."""
    scope = Scope(os.path.realpath(folder))
    key = CallKey("sess_bench", "run_bench", f"call_{next(_numbers)}")
    began = perf_counter()
    await store.begin(key, scope)
    before = perf_counter()
    _change(folder)
    ended = await store.end(key, scope)
    if ended is not None:
        await store.report(ended.checkpoint)
    return (before - began) * 1000, (perf_counter() - before) * 1000


BENCHMARKS = (
    Benchmark(
        "checkpoints",
        (
            Metric("checkpoint-call", "checkpoints before and after a call, 5 files", "ms", "≤ 30", tail=True),
            Metric("checkpoint-first", "first checkpoint of a repository, 50,000 files", "ms", "≤ 1000"),
            Metric("checkpoint-unchanged", "the next one, before a call", "ms", "≤ 500"),
        ),
        checkpoints,
        rounds=3,
    ),
)
