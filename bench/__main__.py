"""`python -m bench [ROW…]`: measure the requested rows, or all, and print one table."""

import argparse
import shutil
import sys
import time
from pathlib import Path

from bench.figures import Row, table
from bench.page import write
from bench.peers import PEERS
from bench.processes import WORKS as PROCESSES
from bench.servers import WORKS as SERVERS
from bench.stage import Failed, Stage
from bench.storage import WORKS as STORAGE
from bench.works import Work, measure

WORKS: tuple[Work, ...] = (*PROCESSES, *SERVERS, *STORAGE)
NAMES = [peer.name for peer in PEERS]
USAGE = 64


class Misused(Exception):
    """What was asked for cannot be done: the message says why, and then what can."""


def main() -> int:
    options = _parser().parse_args()
    try:
        works = _chosen(options)
    except Misused as error:
        print(f"error: {error.args[0]}\nhint: {error.args[1]}", file=sys.stderr)
        return USAGE
    taken = [_measured(work, options) for work in works]
    if options.flame:
        print(f"flame graphs are in {options.flame}; figures taken while recording would mislead", file=sys.stderr)
    else:
        lines = table([row for rows in taken for row in rows or ()])
        print("\n".join(lines))
        if options.write and None not in taken:
            write(lines, options.command)
    return 1 if None in taken else 0


def _measured(work: Work, options: argparse.Namespace) -> list[Row] | None:
    """The rows of one work; None where it failed, which is said, and the others go on."""
    rounds = options.repeat or (max(1, work.rounds // 5) if options.quick or options.flame else work.rounds)
    began = time.perf_counter()
    try:
        with Stage(quick=options.quick, peers=options.peers, flames=options.flame) as stage:
            return measure(work, stage, rounds)
    except (Failed, OSError) as error:
        # A wait that took too long is an OSError too, without a word of its own.
        print(f"error: {work.name}: {error or 'it took too long'}", file=sys.stderr)
        return None
    finally:
        print(f"{work.name}: {rounds} rounds in {time.perf_counter() - began:.1f} s", file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m bench", description="Benchmark Buddy against its baselines and peers.")
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"all without one: {' '.join(_names())}")
    parser.add_argument("--repeat", type=int, metavar="N", help="rounds per row, in place of each row's own number")
    parser.add_argument("--quick", action="store_true", help="fewer rounds and turns: to look at, not to publish")
    parser.add_argument(
        "--peers",
        type=_peers,
        nargs="?",
        default=(),
        const=tuple(NAMES),
        metavar="NAME,…",
        help=f"other agents too, all without a name; what is missing is installed first: {' '.join(NAMES)}",
    )
    parser.add_argument("--write", action="store_true", help="put the table into docs/performance.md")
    parser.add_argument("--command", default="python -m bench", help="what the page says made the table")
    parser.add_argument(
        "--flame", type=Path, metavar="DIR", help="record flame graphs of Buddy's processes with py-spy"
    )
    return parser


def _peers(text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        raise argparse.ArgumentTypeError(f"no peer {unknown[0]!r}; there are {' '.join(NAMES)}")
    return names


def _names() -> list[str]:
    return [work.name for work in WORKS]


def _chosen(options: argparse.Namespace) -> list[Work]:
    """By the name of a work, or of one of its rows."""
    by_name = {work.name: work for work in WORKS} | {metric.key: work for work in WORKS for metric in work.metrics}
    for name in options.rows:
        if name not in by_name:
            raise Misused(f"no row {name!r}", f"there are {' '.join(_names())}")
    if options.write and (options.rows or options.quick):
        raise Misused("--write publishes every row in full", "leave out the rows and --quick")
    if options.flame and shutil.which("py-spy") is None:
        raise Misused("--flame needs py-spy, which is not on PATH", "pip install py-spy")
    if options.flame:
        options.flame.mkdir(parents=True, exist_ok=True)
    return list({by_name[name].name: by_name[name] for name in options.rows or _names()}.values())


if __name__ == "__main__":
    sys.exit(main())
