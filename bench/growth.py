"""`python -m bench.growth [PART…]`: what ten and a hundred times more of everything costs, and whether it is linear.

Figures are CPU time, so they hold on a machine that is used by others, too; memory and wall time are named as such.
"""

import argparse
import sys
import time
from collections.abc import Sequence

from bench.growing import clients, events, files, memory, rules, sessions, tools
from bench.growing.figures import Part, Row, measure, table
from bench.page import write
from bench.setup import BenchmarkError, Setup

PARTS: tuple[Part, ...] = (
    *(sessions.PART, events.PART, clients.PART, tools.PART),
    *(rules.PART, memory.PART, files.PART),
)
MARKER = "growth"
QUICK = 100
"""With `--quick`, every size is divided by this."""


def main() -> int:
    parser = _parser()
    options = parser.parse_args()
    unknown = [name for name in options.parts if name not in _names()]
    if unknown:
        parser.error(f"unknown part {unknown[0]!r}. Available: {' '.join(_names())}")
    if options.write and (options.parts or options.quick):
        parser.error("--write publishes every part in full; omit the parts and --quick")
    parts = [part for part in PARTS if part.name in (options.parts or _names())]
    rows = [row for part in parts for row in _measure(part, quick=options.quick)]
    lines = table(rows)
    print("\n".join(lines))
    worse = [row.figures[0].work for row in rows if row.verdict == "worse than linear"]
    print(f"\nworse than linear: {', '.join(worse) or 'nothing'}")
    if options.write:
        write(lines, options.command, MARKER)
    return 1 if worse else 0


def _measure(part: Part, *, quick: bool) -> Sequence[Row]:
    began = time.perf_counter()
    sizes = [max(2, size // QUICK) for size in part.sizes] if quick else part.sizes
    try:
        with Setup(quick=quick) as setup:
            return measure(part, setup, sizes)
    except (BenchmarkError, OSError) as error:
        print(f"error: {part.name}: {error or 'timed out'}", file=sys.stderr)
        raise SystemExit(1) from error
    finally:
        print(f"{part.name}: {time.perf_counter() - began:.1f} s", file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m bench.growth", description="Measure how costs grow with size.")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"default all: {' '.join(_names())}")
    parser.add_argument("--quick", action="store_true", help=f"sizes divided by {QUICK}: to see that it works")
    parser.add_argument("--write", action="store_true", help="write the table to docs/performance.md")
    parser.add_argument("--command", default="python -m bench.growth", help="the command to name above the table")
    return parser


def _names() -> list[str]:
    return [part.name for part in PARTS]


if __name__ == "__main__":
    sys.exit(main())
