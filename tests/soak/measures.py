"""What a daemon uses while it works, and whether that grows: a line through the samples, with its confidence."""

import math
import statistics
from collections import defaultdict
from pathlib import Path

from msgspec import Struct

PLACES = {"buddy.db": "log", "blobs": "log", "memory.db": "memory", "checkpoints": "undo"}
"""What the files of the state directory belong to, by the beginning of their names; all others are `files`."""
UNITS = {
    **dict.fromkeys(("descriptors", "threads", "processes"), ""),
    **dict.fromkeys(("rss", *PLACES.values(), "files"), "MiB"),
}
JUDGED = frozenset(UNITS) - {"memory", "undo"}
"""What must not grow. Memory has a text for each thing that was ever said, and undo for days what each call changed."""
MIB = 1024 * 1024
WARM_SECONDS = 20.0
"""What a daemon uses in its first seconds says nothing about growth."""
BEGINNING = 0.1
"""Nor does the first tenth of all the time, in which the first copies are made and the first pages are pruned."""


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
            **_disk(state_dir),
        }
    except (OSError, IndexError, ValueError):
        return None
    return Sample(at, age, values)


def _disk(state_dir: Path) -> dict[str, float]:
    taken = dict.fromkeys((*PLACES.values(), "files"), 0.0)
    for path in state_dir.rglob("*"):
        if path.is_file():
            place = path.relative_to(state_dir).parts[0]
            kind = next((kind for name, kind in PLACES.items() if place.startswith(name)), "files")
            taken[kind] += _used(path) / MIB
    return taken


def _used(path: Path) -> int:
    """The size of a file; of a database without its free pages, which it fills before it grows."""
    size = path.stat().st_size
    if path.suffix != ".db" or not size:
        return size
    with path.open("rb") as opened:
        header = opened.read(100)
    return size - int.from_bytes(header[16:18]) * int.from_bytes(header[36:40])


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
    """The line through the samples of warm daemons; None if there are too few.

    What one daemon uses differs from what the next one does for the whole of its life, so the samples of a daemon count
    as one for the confidence, however many there are.
    """
    begun = samples[-1].at * BEGINNING if samples else 0.0
    warm = [one for one in samples if one.at >= begun and one.age >= WARM_SECONDS]
    if len(warm) < 10:
        return None
    hours, values = [one.at / 3600 for one in warm], [one.values[name] for one in warm]
    slope, start = statistics.linear_regression(hours, values)
    middle = statistics.fmean(hours)
    pulls: defaultdict[int, float] = defaultdict(float)
    for one, at, value in zip(warm, hours, values, strict=True):
        pulls[round(one.at - one.age)] += (at - middle) * (value - start - slope * at)
    if len(pulls) < 2:
        return Trend(statistics.fmean(values), slope, math.inf)
    spread = sum((at - middle) ** 2 for at in hours)
    error = math.sqrt(sum(pull**2 for pull in pulls.values()) * len(pulls) / (len(pulls) - 1)) / spread
    return Trend(statistics.fmean(values), slope, 1.96 * error)


def percentile(values: list[float], part: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * part))] if values else math.nan
