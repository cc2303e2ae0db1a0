"""`python -m bench [ROW…]`: take the rows asked for, or all, and print them as one table."""

import argparse
import sys
import time

from bench.figures import Row, table
from bench.processes import WORKS as PROCESSES
from bench.servers import WORKS as SERVERS
from bench.stage import Failed, Stage
from bench.storage import WORKS as STORAGE
from bench.works import Work, measure

WORKS: tuple[Work, ...] = (*PROCESSES, *SERVERS, *STORAGE)


def main() -> int:
    options = _parser().parse_args()
    try:
        works = _chosen(options.rows)
    except KeyError as unknown:
        print(f"error: no row {unknown}\nhint: there are {' '.join(_names())}", file=sys.stderr)
        return 64
    rows: list[Row] = []
    for work in works:
        rounds = options.repeat or (max(1, work.rounds // 5) if options.quick else work.rounds)
        began = time.perf_counter()
        try:
            with Stage(quick=options.quick) as stage:
                rows += measure(work, stage, rounds, lambda _: True)
        except Failed as error:
            print(f"error: {work.name}: {error}", file=sys.stderr)
            return 1
        print(f"{work.name}: {rounds} rounds in {time.perf_counter() - began:.1f} s", file=sys.stderr)
    print("\n".join(table(rows)))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m bench", description="Measure Buddy beside its floors.")
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"all without one: {' '.join(_names())}")
    parser.add_argument("--repeat", type=int, metavar="N", help="rounds per row; the first, uncounted one comes on top")
    parser.add_argument("--quick", action="store_true", help="fewer rounds and turns: to look at, not to publish")
    return parser


def _names() -> list[str]:
    return [work.name for work in WORKS]


def _chosen(names: list[str]) -> list[Work]:
    """By the name of a work, or of one of its rows."""
    by_name = {work.name: work for work in WORKS} | {metric.key: work for work in WORKS for metric in work.metrics}
    chosen = {by_name[name].name: by_name[name] for name in names or _names()}
    return list(chosen.values())


if __name__ == "__main__":
    sys.exit(main())
