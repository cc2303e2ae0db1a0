"""A benchmark: rows of the table, and contenders that all do the same work.

Invariants: the contenders take turns, so that a busy minute of the machine affects them all equally; a first
round that warms caches is not counted. A peer that fails is left out of the row and reported on stderr; a floor or
Buddy that fails ends the measurement.
"""

import sys
from collections.abc import Callable, Iterator

from msgspec import Struct

from bench.figures import Kind, Metric, Row, Sample, Series
from bench.setup import BenchmarkError, Setup


class Contender(Struct, frozen=True):
    """Something that does the work once per call."""

    name: str
    kind: Kind
    take: Callable[[], Sample]
    # Peers are slow, and a few more rounds would not change their figures.
    max_rounds: int = 1_000_000


class Benchmark(Struct, frozen=True):
    """`rounds` is how often each contender runs (default); with `warm`, an uncounted round precedes them."""

    name: str
    metrics: tuple[Metric, ...]
    contenders: Callable[[Setup], Iterator[Contender]]
    rounds: int = 5
    warm: bool = True


def measure(benchmark: Benchmark, setup: Setup, rounds: int) -> list[Row]:
    """Run all rounds; returns one row per metric."""
    contenders = list(benchmark.contenders(setup))
    found = {metric.key: {contender.name: list[float]() for contender in contenders} for metric in benchmark.metrics}
    failed = set[str]()
    for number in range(0 if benchmark.warm else 1, rounds + 1):
        for contender in contenders:
            if contender.name in failed or number > contender.max_rounds:
                continue
            if not _take(contender, found, counted=number > 0):
                failed.add(contender.name)
    return [Row(metric, _series(contenders, found[metric.key])) for metric in benchmark.metrics]


def _take(contender: Contender, found: dict[str, dict[str, list[float]]], *, counted: bool) -> bool:
    try:
        sample = contender.take()
    except BenchmarkError as error:
        if contender.kind != "peer":
            raise
        print(f"{contender.name} is left out: {error}", file=sys.stderr)
        for values in found.values():
            values[contender.name].clear()
        return False
    if counted:
        for key, values in sample.items():
            found[key][contender.name] += values
    return True


def _series(contenders: list[Contender], found: dict[str, list[float]]) -> list[Series]:
    return [
        Series(contender.name, contender.kind, found[contender.name])
        for contender in contenders
        if found[contender.name]
    ]
