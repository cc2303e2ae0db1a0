"""Figures are medians of the samples, and ratios say how much more something costs than its floor."""

from bench.figures import Metric, Row, Series, percentile, slope, table
from bench.page import BEGIN, END, put

COST = Metric("cost", "some benchmark", "ms", "≤ 3", tail=True)
RATE = Metric("rate", "much benchmark", "turns/s", "≥ 5", more_is_better=True)


def taken(contender: str, *values: float) -> Series:
    kind = "floor" if contender == "raw" else "buddy"
    return Series(contender, kind, list(values))


def test_a_ratio_is_above_one_when_we_cost_more_and_when_we_are_slower() -> None:
    assert Row(COST, [taken("raw", 1, 2, 3), taken("exec", 4, 4, 9), taken("warm", 50)]).ratio() == 2
    assert Row(RATE, [taken("raw", 100), taken("daemon", 25)]).ratio() == 4


def test_a_meaningless_ratio_is_omitted() -> None:
    assert Row(COST, [taken("exec", 1)]).ratio() is None
    assert Row(COST, [taken("raw", 1), taken("exec", -1)]).ratio() is None
    assert Row(COST, [taken("raw", 0.001), taken("exec", 1)]).ratio() is None


def test_a_slope_is_not_moved_by_single_slow_turns() -> None:
    steady = [1 + turn * 0.5 for turn in range(200)]
    assert slope(steady) == 0.5
    assert slope([value + (1000 if turn % 50 == 7 else 0) for turn, value in enumerate(steady)]) == 0.5


def test_the_99th_percentile_is_one_of_the_samples() -> None:
    assert percentile(range(100), 0.99) == 99
    assert percentile([5.0], 0.99) == 5


def test_the_table_has_a_line_per_row_and_a_peers_column_only_if_needed() -> None:
    rows = [Row(COST, [taken("raw", 1), taken("exec", 2, 2, 8)])]
    heads, _, line = (" ".join(line.split()) for line in table(rows))
    assert heads == "| work | unit | floor | Buddy | to floor | goal |"
    assert line == "| some benchmark | ms | raw 1.00 / 1.00 | exec 2.00 / 8.00 | 2.0x | ≤ 3 |"
    assert table([Row(COST, [*rows[0].taken, Series("pi", "peer", [1234.5])])])[-1].endswith("| pi 1,234 / 1,234 |")


def test_only_the_text_between_the_markers_of_the_page_is_replaced() -> None:
    page = f"# before\n\n{BEGIN}\n\nold\n\n{END}\n\n## after\n"
    written = put(page, ["new"])
    assert written == page.replace("old", "new")
    assert put(written, ["new"]) == written
