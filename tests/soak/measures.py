"""What a daemon uses while it works, and whether that grows: a line through the samples, with its confidence."""

import math
import statistics
from pathlib import Path

from msgspec import Struct

NAMES = ("rss", "descriptors", "threads", "processes", "disk")
UNITS = {"rss": "MiB", "descriptors": "", "threads": "", "processes": "", "disk": "MiB"}
MIB = 1024 * 1024
WARM_SECONDS = 20.0
"""What a daemon uses in its first seconds says nothing about growth."""


class Sample(Struct, frozen=True):
    """`at` is in seconds since the beginning, `age` since the daemon was started."""

    at: float
    age: float
    values: dict[str, float]


class Trend(Struct, frozen=True):
    """Per hour; the true slope is within `slope` ± `margin` with 95 % confidence."""

    mean: float
    slope: float
    margin: float

    @property
    def grows(self) -> bool:
        """Whether it surely grows, and by more than a tenth of its mean in an hour."""
        return self.slope - self.margin > max(0.1 * self.mean, 1.0)


def sample(pid: int, state_dir: Path, at: float, age: float) -> Sample | None:
    """What a process uses now; None if it is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
        values = {
            "rss": int(status.partition("VmRSS:")[2].split()[0]) / 1024,
            "threads": float(status.partition("Threads:")[2].split()[0]),
            "descriptors": float(sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())),
            "processes": float(_children(pid)),
            "disk": sum(path.stat().st_size for path in state_dir.rglob("*") if path.is_file()) / MIB,
        }
    except (OSError, IndexError, ValueError):
        return None
    return Sample(at, age, values)


def _children(pid: int) -> int:
    """All processes below this one."""
    own = [
        int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()
    ]
    return sum(1 + _count_below(child) for child in own)


def _count_below(pid: int) -> int:
    try:
        return _children(pid)
    except OSError:
        return 0


def trend_of(samples: list[Sample], name: str) -> Trend | None:
    """The line through the samples of a warm daemon; None if there are too few."""
    points = [(one.at / 3600, one.values[name]) for one in samples if one.age >= WARM_SECONDS]
    if len(points) < 10:
        return None
    slope, start = statistics.linear_regression(*zip(*points, strict=True))
    middle = statistics.fmean(at for at, _ in points)
    spread = sum((at - middle) ** 2 for at, _ in points)
    errors = sum((value - start - slope * at) ** 2 for at, value in points)
    margin = 1.96 * math.sqrt(errors / (len(points) - 2) / spread) if spread else math.inf
    return Trend(statistics.fmean(value for _, value in points), slope, margin)


def percentile(values: list[float], part: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * part))] if values else math.nan
