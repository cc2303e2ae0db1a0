"""Turn samples into figures and figures into one table: the only place that aggregates or prints.

Invariants: a figure is the median of all samples, with the 99th percentile if the row has one; ratios compare
medians of the same run.
"""

import statistics
from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct

Kind = Literal["floor", "buddy", "peer"]
Sample = Mapping[str, Sequence[float]]

LEAST = 0.005
"""Smaller values are shown as 0 and not compared."""


class Metric(Struct, frozen=True):
    """A row of the table; `tail` says that the 99th percentile is shown next to the median."""

    key: str
    title: str
    unit: str
    goal: str
    tail: bool = False
    more_is_better: bool = False


class Series(Struct, frozen=True):
    """All samples of one contender for one metric."""

    contender: str
    kind: Kind
    values: list[float]

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def p99(self) -> float:
        return percentile(self.values, 0.99)


class Row(Struct, frozen=True):
    """A metric with its samples, in the order of the contenders."""

    metric: Metric
    taken: list[Series]

    def of(self, kind: Kind) -> list[Series]:
        return [taken for taken in self.taken if taken.kind == kind]

    def ratio(self) -> float | None:
        """Buddy's best mode against the lowest floor: above 1 means more expensive or slower by that factor."""
        if not self.of("buddy") or not self.of("floor"):
            return None
        pick = max if self.metric.more_is_better else min
        ours, floor = (pick(taken.median for taken in self.of(kind)) for kind in ("buddy", "floor"))
        over, under = (floor, ours) if self.metric.more_is_better else (ours, floor)
        return over / under if min(over, under) >= LEAST else None


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def slope(values: Sequence[float]) -> float:
    """How much the values grow per step: the median of the slopes between windows far apart.

    Single slow turns do not move it, as a least-squares line would let them.
    """
    size = max(1, len(values) // 20)
    windows = [statistics.median(values[at : at + size]) for at in range(0, len(values) - size + 1, size)]
    half = len(windows) // 2
    return statistics.median((windows[at + half] - windows[at]) / (half * size) for at in range(len(windows) - half))


def table(rows: Sequence[Row]) -> list[str]:
    """A Markdown table; the peers' column is omitted if there are none."""
    heads = ["work", "unit", "floor", "Buddy", "to floor", "goal"]
    has_peers = any(row.of("peer") for row in rows)
    cells = [[*heads, "peers"] if has_peers else heads]
    for row in rows:
        ratio = row.ratio()
        columns = [row.metric.title, row.metric.unit, _figures(row, "floor"), _figures(row, "buddy")]
        columns += [f"{ratio:.1f}x" if ratio is not None else "-", row.metric.goal]
        cells.append([*columns, _figures(row, "peer")] if has_peers else columns)
    widths = [max(len(line[at]) for line in cells) for at in range(len(cells[0]))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |" for line in cells
    ]
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return [lines[0], rule, *lines[1:]]


def _figures(row: Row, kind: Kind) -> str:
    shown = [f"{taken.contender} {_figure(row.metric, taken)}" for taken in row.of(kind)]
    return ", ".join(shown) or "-"


def _figure(metric: Metric, taken: Series) -> str:
    return f"{number(taken.median)} / {number(taken.p99)}" if metric.tail else number(taken.median)


def number(value: float) -> str:
    """With three significant digits."""
    size = abs(value)
    if size >= 1000:
        return f"{value:,.0f}"
    return f"{value:.0f}" if size >= 100 else f"{value:.1f}" if size >= 10 else f"{value:.2f}"
