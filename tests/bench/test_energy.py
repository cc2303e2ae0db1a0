"""What waiting costs: the table and how wake-ups are counted; never how many."""

import os
import subprocess
import sys
import time

from bench.energy import MARKER, Cost, Observed, observe, table
from bench.page import BEGIN, PAGE


def test_wakeups_are_counted_and_sleep_is_not() -> None:
    waking = "import time\nwhile True: time.sleep(0.01)"
    with subprocess.Popen([sys.executable, "-c", waking]) as busy, subprocess.Popen(["sleep", "60"]) as idle:
        try:
            time.sleep(0.5)
            found = observe([Observed("busy", [busy.pid]), Observed("idle", [idle.pid])], 0.5, settle=0)
        finally:
            busy.kill()
            idle.kill()
    assert found[0].wakeups > 0
    assert found[1] == Cost(0.0, 0.0)


def test_every_row_is_next_to_its_floor() -> None:
    pids = [os.getpid()]
    observed = [Observed("asyncio that sleeps", pids), Observed("daemon", pids)]
    lines = table(observed, [Cost(1.0, 2.0), Cost(30.0, 4.0)])
    assert lines[2:] == ["| asyncio that sleeps | 1.00 | 2.00 | - |", "| daemon | 30.0 | 4.00 | 1.00, 2.00 |"]


def test_the_page_has_a_place_for_the_table() -> None:
    assert BEGIN.replace("table", MARKER) in PAGE.read_text()
