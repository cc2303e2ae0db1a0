"""Figures at 1, 10 and 100 times the size, and what ten times more costs.

Invariants: a figure is the least of its takes, because whatever else the machine does only adds to it; a row is worse
than linear if ten times more costs more than `LINEAR` times as much; figures below their resolution are not compared.
"""

import itertools
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Literal

from msgspec import Struct

from bench.figures import number
from bench.setup import Setup

FLAT = 1.6
"""Up to this factor, ten times more costs the same: what is left is noise, and the logarithm of an index."""
LINEAR = 12.5
RESOLUTION = {"ms": 0.05, "µs": 2.0, "MiB": 1.0, "s": 0.02}

Verdict = Literal["flat", "less than linear", "linear", "worse than linear"]


class Figure(Struct, frozen=True):
    """One work at one size, in CPU time unless its unit or its name says otherwise; `floor` is the least it costs."""

    work: str
    unit: str
    value: float
    floor: float | None = None


class Part(Struct, frozen=True):
    """Something that grows: its sizes, and the figures at one of them."""

    name: str
    title: str
    sizes: Sequence[int]
    measure: Callable[[Setup, int], Iterator[Figure]]


class Row(Struct, frozen=True):
    """A work at all sizes."""

    part: Part
    sizes: tuple[int, ...]
    figures: tuple[Figure, ...]

    @property
    def factors(self) -> list[float]:
        """How much more each size costs than the one before it, per factor of ten."""
        least = RESOLUTION.get(self.figures[0].unit, 0.001)
        values = [max(figure.value, least) for figure in self.figures]
        return [after / before for before, after in itertools.pairwise(values)]

    @property
    def verdict(self) -> Verdict:
        worst = max(self.factors, default=1.0)
        if worst <= FLAT:
            return "flat"
        return "worse than linear" if worst > LINEAR else "linear" if worst > LINEAR / 2 else "less than linear"


def measure(part: Part, setup: Setup, sizes: Sequence[int]) -> list[Row]:
    found = [list(part.measure(setup, size)) for size in sizes]
    return [Row(part, tuple(sizes), figures) for figures in zip(*found, strict=True)]


def table(rows: Collection[Row]) -> list[str]:
    """A Markdown table; the floor is that of the largest size."""
    cells = [["what grows", "sizes", "work", "unit", "1x", "10x", "100x", "floor", "10 times more", "growth"]]
    cells += [_cells(row) for row in rows]
    widths = [max(len(line[at]) for line in cells) for at in range(len(cells[0]))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |" for line in cells
    ]
    return [lines[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *lines[1:]]


def _cells(row: Row) -> list[str]:
    last = row.figures[-1]
    return [
        row.part.title,
        ", ".join(map(_size, row.sizes)),
        last.work,
        last.unit,
        *(number(figure.value) for figure in row.figures),
        number(last.floor) if last.floor is not None else "-",
        ", ".join(f"x {factor:.1f}" for factor in row.factors),
        row.verdict,
    ]


def _size(count: int) -> str:
    for least, letter in ((1_000_000, "M"), (1_000, "k")):
        if count >= least and count % least == 0:
            return f"{count // least}{letter}"
    return str(count)
