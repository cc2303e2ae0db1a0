"""Measurements of entire processes: start, exit, and the time between two requests."""

import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from bench.agents import Agent, Tool, buddy, floors, thin_floor
from bench.figures import Metric, Sample, slope
from bench.peers import peers
from bench.stage import BUDDY, Failed, Stage, gaps
from bench.works import Subject, Work

DELTAS = 20_000


def version(stage: Stage) -> Iterator[Subject]:
    def take(command: Sequence[str]) -> Sample:
        ended = stage.run(command)
        return {"version": [(ended.ended - ended.started) / 1e6]}

    yield Subject("python", "floor", partial(take, [sys.executable, "-c", "pass"]))
    yield Subject("buddy", "buddy", partial(take, [*stage.recorded("version"), BUDDY, "--version"]))
    for agent in peers(stage):
        if agent.version:
            yield Subject(agent.name, "peer", partial(take, agent.version), most=3)


def cold(stage: Stage) -> Iterator[Subject]:
    for agent in (*floors(stage, "raw", "asyncio", "httpx2"), buddy(stage), *peers(stage)):
        yield _subject(agent, partial(_start, stage, agent, "start", "exit"))


def warm(stage: Stage) -> Iterator[Subject]:
    for agent in (thin_floor(stage), buddy(stage, daemon=True)):
        yield _subject(agent, partial(_start, stage, agent, "warm-start", "warm-exit"))


def gap(stage: Stage) -> Iterator[Subject]:
    for agent in _all(stage):
        yield _subject(agent, partial(_gap, stage, agent, agent.read, "gap"))


def shell(stage: Stage) -> Iterator[Subject]:
    for agent in _all(stage):
        yield _subject(agent, partial(_gap, stage, agent, agent.shell, "shell"))


def growth(stage: Stage) -> Iterator[Subject]:
    turns = 300 if stage.quick else 1000
    for agent in (*floors(stage, "asyncio", logs=("NORMAL",)), buddy(stage), *peers(stage)):
        yield _subject(agent, partial(_growth, stage, agent, turns), most=1)


def deltas(stage: Stage) -> Iterator[Subject]:
    for agent in (*floors(stage, "raw", "asyncio"), buddy(stage), buddy(stage, daemon=True), *peers(stage)):
        yield _subject(agent, partial(_deltas, stage, agent))


def _all(stage: Stage) -> Iterator[Agent]:
    yield from floors(stage, "asyncio", logs=("NORMAL", "FULL"))
    yield buddy(stage)
    yield buddy(stage, daemon=True)
    yield from peers(stage)


def _subject(agent: Agent, take: Callable[[], Sample], most: int = 2) -> Subject:
    return (
        Subject(agent.name, agent.kind, take, most) if agent.kind == "peer" else Subject(agent.name, agent.kind, take)
    )


def _start(stage: Stage, agent: Agent, start: str, exit_: str) -> Sample:
    ended, requests = agent.play(stage, stage.script())
    if not requests:
        raise Failed(f"{agent.name} did not ask the model")
    first, last = (requests[0].received - ended.started) / 1e6, (ended.ended - requests[-1].sent) / 1e6
    return {start: [first], exit_: [last]}


def _gap(stage: Stage, agent: Agent, tool: Tool, key: str) -> Sample:
    return {key: _gaps(stage, agent, tool, 50 if stage.quick or agent.kind == "peer" else 200)}


def _growth(stage: Stage, agent: Agent, turns: int) -> Sample:
    """A peer's is taken over fewer turns, so it has no figure for the last of them."""
    if agent.kind == "peer":
        return {"growth": [slope(_gaps(stage, agent, agent.read, 200)) * 1000]}
    found = _gaps(stage, agent, agent.read, turns)
    return {"growth": [slope(found) * 1000], "last-turns": found[-20:]}


def _gaps(stage: Stage, agent: Agent, tool: Tool, turns: int) -> list[float]:
    script = stage.script(turns=turns, call=tool.name, arguments=tool.arguments)
    _, requests = agent.play(stage, script)
    if len(requests) != turns + 1:
        raise Failed(f"{agent.name} made {len(requests)} requests where {turns + 1} were expected")
    return gaps(requests)


def _deltas(stage: Stage, agent: Agent) -> Sample:
    """CPU time of a long answer over that of a short one: what starts and ends with the process cancels out."""
    many, few = (agent.cpu(stage, stage.script(deltas=count)) for count in (DELTAS, 1))
    return {"deltas": [(many - few) / DELTAS * 1e6]}


WORKS = (
    Work("version", (Metric("version", "`--version`", "ms", "≤ 20"),), version, rounds=20),
    Work(
        "cold",
        (
            Metric("start", "start → first model request, no daemon", "ms", "≤ 130, stretch 100"),
            Metric("exit", "last byte → exit, no daemon", "ms", "≤ 20"),
        ),
        cold,
        rounds=15,
    ),
    Work(
        "warm",
        (
            Metric("warm-start", "start → first model request, warm daemon", "ms", "≤ 40, stretch 25"),
            Metric("warm-exit", "last byte → exit, warm daemon", "ms", "≤ 20"),
        ),
        warm,
        rounds=15,
    ),
    Work("gap", (Metric("gap", "gap per turn, read tool", "ms", "≤ 1.5 / 4", tail=True),), gap),
    Work("shell", (Metric("shell", "gap per turn, shell tool", "ms", "≤ 3", tail=True),), shell),
    Work(
        "growth",
        (
            Metric("growth", "growth of the gap with history", "µs/turn", "≤ 3"),
            Metric("last-turns", "gap per turn at turn 1,000", "ms", "≤ 3"),
        ),
        growth,
        rounds=3,
        warm=False,
    ),
    Work("deltas", (Metric("deltas", f"CPU per delta, burst of {DELTAS:,}", "µs", "≤ 12"),), deltas),
)
