"""What is measured: a work has rows of the table and subjects that all do the same thing.

Invariants: the subjects take turns, so that a busy minute of the machine hits them all alike; a first round
that warms caches is not counted. A peer that fails loses its place in the row, with a word on stderr; a floor or Buddy
that fails ends the measurement.
"""

import sys
from collections.abc import Callable, Iterator

from msgspec import Struct

from bench.figures import Kind, Metric, Row, Sample, Taken
from bench.stage import Failed, Stage


class Subject(Struct, frozen=True):
    """Something that does the work once per call."""

    name: str
    kind: Kind
    take: Callable[[], Sample]
    # Peers are slow, and their figures far from where a few more rounds would matter.
    most: int = 1_000_000


class Work(Struct, frozen=True):
    """`rounds` are how often each subject does it without `--repeat`; `warm` says that a round goes before them."""

    name: str
    metrics: tuple[Metric, ...]
    subjects: Callable[[Stage], Iterator[Subject]]
    rounds: int = 5
    warm: bool = True


def measure(work: Work, stage: Stage, rounds: int) -> list[Row]:
    """Take everything; one row per metric."""
    subjects = list(work.subjects(stage))
    found = {metric.key: {subject.name: list[float]() for subject in subjects} for metric in work.metrics}
    failed = set[str]()
    for number in range(0 if work.warm else 1, rounds + 1):
        for subject in subjects:
            if subject.name in failed or number > subject.most:
                continue
            if not _take(subject, found, counted=number > 0):
                failed.add(subject.name)
    return [Row(metric, _taken(subjects, found[metric.key])) for metric in work.metrics]


def _take(subject: Subject, found: dict[str, dict[str, list[float]]], *, counted: bool) -> bool:
    try:
        sample = subject.take()
    except Failed as error:
        if subject.kind != "peer":
            raise
        print(f"{subject.name} is left out: {error}", file=sys.stderr)
        for values in found.values():
            values[subject.name].clear()
        return False
    if counted:
        for key, values in sample.items():
            found[key][subject.name] += values
    return True


def _taken(subjects: list[Subject], found: dict[str, list[float]]) -> list[Taken]:
    return [Taken(subject.name, subject.kind, found[subject.name]) for subject in subjects if found[subject.name]]
