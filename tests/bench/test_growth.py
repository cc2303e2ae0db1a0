"""The growth table: its verdicts, its command, and its data; never how long something takes."""

import subprocess
import sys

import pytest

from bench.growing.figures import Figure, Part, Row, table
from bench.growing.rules import made_up
from bench.growth import MARKER, PARTS
from bench.page import BEGIN, END, PAGE, put
from bench.setup import ROOT, clean_environment
from buddy.approvals.rules import read_rules

PART = Part("things", "things", (1, 10, 100), lambda _setup, _size: iter(()))


def row(*values: float, unit: str = "ms") -> Row:
    return Row(PART, (1_000, 10_000, 1_000_000), tuple(Figure("find one", unit, value, 0.5) for value in values))


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ((1.0, 1.1, 1.5), "flat"),
        ((1.0, 3.0, 9.0), "less than linear"),
        ((1.0, 9.0, 92.0), "linear"),
        ((1.0, 2.0, 40.0), "worse than linear"),
        ((0.0001, 0.001, 0.04), "flat"),  # too short to tell
    ],
)
def test_a_row_says_how_it_grows(values: tuple[float, ...], verdict: str) -> None:
    assert row(*values).verdict == verdict


def test_the_table_has_every_size_the_floor_and_what_ten_times_more_costs() -> None:
    heads, _, line = (_cells(text) for text in table([row(1.0, 9.0, 92.0)]))
    assert dict(zip(heads, line, strict=True)) == {
        "what grows": "things",
        "sizes": "1k, 10k, 1M",
        "work": "find one",
        "unit": "ms",
        "1x": "1.00",
        "10x": "9.00",
        "100x": "92.0",
        "floor": "0.50",
        "10 times more": "x 9.0, x 10.2",
        "growth": "linear",
    }


@pytest.mark.slow
def test_the_command_measures_parts_by_name() -> None:
    done = _growth("rules", "memory", "--quick")
    assert done.returncode in (0, 1), done.stderr
    names = {_cells(line)[0] for line in done.stdout.splitlines()[2:] if line.startswith("|")}
    assert names == {"permission rules", "chunks of memory"}
    assert "worse than linear:" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"), [(["nothing"], "unknown part 'nothing'"), (["rules", "--write"], "every part in full")]
)
def test_invalid_arguments_are_reported(arguments: list[str], said: str) -> None:
    done = _growth(*arguments)
    assert done.returncode == 2
    assert said in done.stderr


def test_every_part_is_on_the_page_between_its_markers() -> None:
    page = PAGE.read_text()
    begin, end = (marker.replace("table", MARKER) for marker in (BEGIN, END))
    published = page.partition(begin)[2].partition(end)[0]
    assert all(f"| {part.title} " in published for part in PARTS)
    assert put(page, ["nothing"], MARKER).count(begin) == 1


def test_the_rules_of_the_measurement_are_all_different() -> None:
    assert len({rule.rule_id for rule in read_rules({"rules": made_up(1_000)}).rules}) == 1_000


def _growth(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "bench.growth", *arguments]
    return subprocess.run(command, cwd=ROOT, env=clean_environment(), capture_output=True, text=True, check=False)


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]
