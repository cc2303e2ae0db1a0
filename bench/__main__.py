"""`python -m bench [ROW…]`: measure the requested rows, or all, and print one table."""

import argparse
import shutil
import sys
import time
from pathlib import Path

from bench.benchmarks import Benchmark, measure
from bench.checkpoints import BENCHMARKS as CHECKPOINTS
from bench.confinement import BENCHMARKS as CONFINEMENT
from bench.console import BENCHMARKS as CONSOLE
from bench.figures import Row, table
from bench.fleet import BENCHMARKS as FLEET
from bench.page import write
from bench.pauses import BENCHMARKS as PAUSES
from bench.peers import PEERS
from bench.postgres import BENCHMARKS as POSTGRES
from bench.processes import BENCHMARKS as PROCESSES
from bench.servers import BENCHMARKS as SERVERS
from bench.setup import BenchmarkError, Setup
from bench.storage import BENCHMARKS as STORAGE

BENCHMARKS: tuple[Benchmark, ...] = (
    *PROCESSES,
    *SERVERS,
    *STORAGE,
    *POSTGRES,
    *FLEET,
    *CONFINEMENT,
    *CHECKPOINTS,
    *PAUSES,
    *CONSOLE,
)
NAMES = [peer.name for peer in PEERS]
USAGE = 64


class UsageError(Exception):
    """Invalid options: a message and a hint."""


def main() -> int:
    options = _parser().parse_args()
    try:
        benchmarks = _select(options)
    except UsageError as error:
        print(f"error: {error.args[0]}\nhint: {error.args[1]}", file=sys.stderr)
        return USAGE
    taken = [_measure(benchmark, options) for benchmark in benchmarks]
    if options.flame:
        print(f"flame graphs are in {options.flame}; figures taken while recording would mislead", file=sys.stderr)
    else:
        lines = table([row for rows in taken for row in rows or ()])
        print("\n".join(lines))
        if options.write and None not in taken:
            write(lines, options.command)
    return 1 if None in taken else 0


def _measure(benchmark: Benchmark, options: argparse.Namespace) -> list[Row] | None:
    """The rows of one benchmark; None if it failed, which is reported, and the others continue."""
    rounds = options.repeat or (max(1, benchmark.rounds // 5) if options.quick or options.flame else benchmark.rounds)
    began = time.perf_counter()
    try:
        with Setup(quick=options.quick, peers=options.peers, flames=options.flame) as setup:
            return measure(benchmark, setup, rounds)
    except (BenchmarkError, OSError) as error:
        # A timeout is an OSError too, without a message.
        print(f"error: {benchmark.name}: {error or 'timed out'}", file=sys.stderr)
        return None
    finally:
        print(f"{benchmark.name}: {rounds} rounds in {time.perf_counter() - began:.1f} s", file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m bench", description="Benchmark Buddy against its baselines and peers.")
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"rows to measure (default all): {' '.join(_names())}")
    parser.add_argument("--repeat", type=int, metavar="N", help="rounds per row (default depends on the row)")
    parser.add_argument("--quick", action="store_true", help="fewer rounds and turns: for a first look, not to publish")
    parser.add_argument(
        "--peers",
        type=_peers,
        nargs="?",
        default=(),
        const=tuple(NAMES),
        metavar="NAME,…",
        help=f"measure other agents too (default all); missing ones are installed first: {' '.join(NAMES)}",
    )
    parser.add_argument("--write", action="store_true", help="write the table to docs/performance.md")
    parser.add_argument("--command", default="python -m bench", help="the command to name above the written table")
    parser.add_argument(
        "--flame", type=Path, metavar="DIR", help="record flame graphs of Buddy's processes with py-spy"
    )
    return parser


def _peers(text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        raise argparse.ArgumentTypeError(f"unknown peer {unknown[0]!r}. Available: {' '.join(NAMES)}")
    return names


def _names() -> list[str]:
    return [benchmark.name for benchmark in BENCHMARKS]


def _select(options: argparse.Namespace) -> list[Benchmark]:
    """The benchmarks named by the options, directly or by one of their rows."""
    by_name = {benchmark.name: benchmark for benchmark in BENCHMARKS} | {
        metric.key: benchmark for benchmark in BENCHMARKS for metric in benchmark.metrics
    }
    for name in options.rows:
        if name not in by_name:
            raise UsageError(f"unknown row {name!r}", f"available: {' '.join(_names())}")
    if options.write and (options.rows or options.quick):
        raise UsageError("--write publishes every row in full", "omit the rows and --quick")
    if options.flame and shutil.which("py-spy") is None:
        raise UsageError("--flame needs py-spy, which is not on PATH", "pip install py-spy")
    if options.flame:
        options.flame.mkdir(parents=True, exist_ok=True)
    return list({by_name[name].name: by_name[name] for name in options.rows or _names()}.values())


if __name__ == "__main__":
    sys.exit(main())
