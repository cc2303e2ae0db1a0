"""Measurements of entire processes: start, exit, and the time between two requests."""

import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from bench.agents import Agent, Tool, buddy, floors, thin_floor
from bench.benchmarks import Benchmark, Contender
from bench.figures import Metric, Sample, slope
from bench.peers import peers
from bench.setup import BUDDY, BenchmarkError, Setup, gaps

DELTAS = 20_000


def version(setup: Setup) -> Iterator[Contender]:
    def take(command: Sequence[str]) -> Sample:
        ended = setup.run(command)
        return {"version": [(ended.ended - ended.started) / 1e6]}

    yield Contender("python", "floor", partial(take, [sys.executable, "-c", "pass"]))
    yield Contender("buddy", "buddy", partial(take, [*setup.flame_prefix("version"), BUDDY, "--version"]))
    for agent in peers(setup):
        if agent.version:
            yield Contender(agent.name, "peer", partial(take, agent.version), max_rounds=3)


def cold(setup: Setup) -> Iterator[Contender]:
    for agent in (*floors(setup, "raw", "asyncio", "httpx2"), buddy(setup), *peers(setup)):
        yield _contender(agent, partial(_start, setup, agent, "start", "exit"))


def warm(setup: Setup) -> Iterator[Contender]:
    for agent in (thin_floor(setup), buddy(setup, daemon=True)):
        yield _contender(agent, partial(_start, setup, agent, "warm-start", "warm-exit"))


def gap(setup: Setup) -> Iterator[Contender]:
    for agent in _all(setup):
        yield _contender(agent, partial(_gap, setup, agent, agent.read, "gap"))


def shell(setup: Setup) -> Iterator[Contender]:
    for agent in _all(setup):
        yield _contender(agent, partial(_gap, setup, agent, agent.shell, "shell"))


def growth(setup: Setup) -> Iterator[Contender]:
    turns = 300 if setup.quick else 1000
    for agent in (*floors(setup, "asyncio", logs=("NORMAL",)), buddy(setup), *peers(setup)):
        yield _contender(agent, partial(_growth, setup, agent, turns), max_rounds=1)


def deltas(setup: Setup) -> Iterator[Contender]:
    for agent in (*floors(setup, "raw", "asyncio"), buddy(setup), buddy(setup, daemon=True), *peers(setup)):
        yield _contender(agent, partial(_deltas, setup, agent))


def _all(setup: Setup) -> Iterator[Agent]:
    yield from floors(setup, "asyncio", logs=("NORMAL", "FULL"))
    yield buddy(setup)
    yield buddy(setup, daemon=True)
    yield from peers(setup)


def _contender(agent: Agent, take: Callable[[], Sample], max_rounds: int = 2) -> Contender:
    return (
        Contender(agent.name, agent.kind, take, max_rounds)
        if agent.kind == "peer"
        else Contender(agent.name, agent.kind, take)
    )


def _start(setup: Setup, agent: Agent, start: str, exit_: str) -> Sample:
    ended, requests = agent.play(setup, setup.script())
    if not requests:
        raise BenchmarkError(f"{agent.name} did not ask the model")
    first, last = (requests[0].received - ended.started) / 1e6, (ended.ended - requests[-1].sent) / 1e6
    return {start: [first], exit_: [last]}


def _gap(setup: Setup, agent: Agent, tool: Tool, key: str) -> Sample:
    return {key: _gaps(setup, agent, tool, 50 if setup.quick or agent.kind == "peer" else 200)}


def _growth(setup: Setup, agent: Agent, turns: int) -> Sample:
    """A peer is measured over fewer turns, so it has no figure for the last ones."""
    if agent.kind == "peer":
        return {"growth": [slope(_gaps(setup, agent, agent.read, 200)) * 1000]}
    found = _gaps(setup, agent, agent.read, turns)
    return {"growth": [slope(found) * 1000], "last-turns": found[-20:]}


def _gaps(setup: Setup, agent: Agent, tool: Tool, turns: int) -> list[float]:
    script = setup.script(turns=turns, call=tool.name, arguments=tool.arguments)
    _, requests = agent.play(setup, script)
    if len(requests) != turns + 1:
        raise BenchmarkError(f"{agent.name} made {len(requests)} requests where {turns + 1} were expected")
    return gaps(requests)


def _deltas(setup: Setup, agent: Agent) -> Sample:
    """CPU time of a long answer minus that of a short one, so that start-up and exit cancel out."""
    many, few = (agent.cpu(setup, setup.script(deltas=count)) for count in (DELTAS, 1))
    return {"deltas": [(many - few) / DELTAS * 1e6]}


BENCHMARKS = (
    Benchmark("version", (Metric("version", "`--version`", "ms", "≤ 20"),), version, rounds=20),
    Benchmark(
        "cold",
        (
            Metric("start", "start → first model request, no daemon", "ms", "≤ 130, stretch 100"),
            Metric("exit", "last byte → exit, no daemon", "ms", "≤ 20"),
        ),
        cold,
        rounds=15,
    ),
    Benchmark(
        "warm",
        (
            Metric("warm-start", "start → first model request, warm daemon", "ms", "≤ 40, stretch 25"),
            Metric("warm-exit", "last byte → exit, warm daemon", "ms", "≤ 20"),
        ),
        warm,
        rounds=15,
    ),
    Benchmark("gap", (Metric("gap", "gap per turn, read tool", "ms", "≤ 1.0 / 4", tail=True),), gap),
    Benchmark("shell", (Metric("shell", "gap per turn, shell tool", "ms", "≤ 3", tail=True),), shell),
    Benchmark(
        "growth",
        (
            Metric("growth", "growth of the gap with history", "µs/turn", "≤ 3"),
            Metric("last-turns", "gap per turn at turn 1,000", "ms", "≤ 3"),
        ),
        growth,
        rounds=3,
        warm=False,
    ),
    Benchmark("deltas", (Metric("deltas", f"CPU per delta, burst of {DELTAS:,}", "µs", "≤ 12"),), deltas),
)
