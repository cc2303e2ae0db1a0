"""The benchmark command as a user runs it: `python -m bench ROW`."""

import subprocess
import sys

import pytest

from bench.__main__ import BENCHMARKS
from bench.agents import READ, buddy
from bench.page import BEGIN, END, PAGE
from bench.setup import ROOT, Setup, clean_environment
from bench.wire import Wire


def bench(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "bench", *arguments]
    return subprocess.run(command, cwd=ROOT, env=clean_environment(), capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_rows_are_measured_for_floors_and_every_mode_of_buddy() -> None:
    done = bench("start", "warm-exit", "--quick", "--repeat", "1")
    assert done.returncode == 0, done.stderr
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in done.stdout.splitlines()]
    assert [line[0] for line in lines[2:]] == [
        "start → first model request, no daemon",
        "last byte → exit, no daemon",
        "start → first model request, warm daemon",
        "last byte → exit, warm daemon",
    ]
    names = [[part.split()[0] for part in cell.split(", ")] for line in lines[2:] for cell in line[2:4]]
    assert names == [["raw", "asyncio", "httpx2"], ["exec"]] * 2 + [["thin"], ["warm"]] * 2


async def test_a_warm_exec_is_served_by_the_daemon() -> None:
    with Setup() as setup:
        agent = buddy(setup, daemon=True)
        _, requests = agent.play(setup, setup.script(turns=1, call=READ.name, arguments=READ.arguments))
        assert agent.daemon is not None
        wire = await Wire.connect(agent.daemon.socket)
        status = await wire.ask("daemon_status", {})
        wire.close()
    assert len(requests) == 2
    assert status["sessions"] == 1


def test_invalid_options_are_reported_in_one_line_with_a_hint() -> None:
    for arguments, said in (
        (["nothing"], "unknown row 'nothing'"),
        (["gap", "--write"], "--write publishes every row"),
        (["gap", "--peers", "nobody"], "unknown peer 'nobody'"),
    ):
        done = bench(*arguments)
        assert done.returncode in (2, 64)
        assert said in done.stderr
        assert done.stdout == ""


def test_every_row_has_a_unique_name_and_is_explained_on_the_page() -> None:
    names = [benchmark.name for benchmark in BENCHMARKS]
    keys = [metric.key for benchmark in BENCHMARKS for metric in benchmark.metrics]
    assert len(set(names)) == len(names)
    assert len(set(keys)) == len(keys)
    page = PAGE.read_text()
    assert page.count(BEGIN) == page.count(END) == 1
    explained = page.partition("| row |")[2]
    assert [name for name in names if f"`{name}`" not in explained] == []
