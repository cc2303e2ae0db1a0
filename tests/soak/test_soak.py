"""A daemon that people use while it is killed, replaced and starved; the long version is `make soak`."""

import os
from pathlib import Path

import apsw
import msgspec
import pytest

from buddy.log.database import connect
from buddy.protocol.envelopes import Event
from tests.soak.machine import without_begun
from tests.soak.measures import Sample, sample, trend_of
from tests.soak.soak import Plan, Soak, report


@pytest.mark.slow
async def test_nothing_is_lost_or_done_twice_in_a_short_soak(tmp_path: Path) -> None:
    plan = Plan(sessions=5, seconds=20, fault_seconds=4, pause_seconds=1, events=2000, seed=1)
    outcome = await Soak(plan, tmp_path).run()
    print(report(plan, outcome))  # noqa: T201 - the figures are the point
    assert outcome.violations == []
    assert {"kill", "restart", "disk"} <= set(outcome.faults)
    assert outcome.pings


def test_growth_is_distinguished_from_noise() -> None:
    flat = [Sample(float(at), 100.0, {"rss": 50.0 + at % 7}) for at in range(3600)]
    growing = [Sample(float(at), 100.0, {"rss": 50.0 + at / 120 + at % 7}) for at in range(3600)]
    trends = [trend_of(samples, "rss") for samples in (flat, growing)]
    assert [trend is not None and trend.grows for trend in trends] == [False, True]
    assert trend_of(flat[:5], "rss") is None


def test_daemons_that_differ_are_no_growth() -> None:
    threads = (9.0, 13.0, 8.0, 12.0, 10.0, 14.0)
    samples = [
        Sample(600.0 * life + age, float(age), {"threads": threads[life]}) for life in range(6) for age in range(600)
    ]
    trend = trend_of(samples, "threads")
    assert trend is not None
    assert trend.slope > 1.1
    assert not trend.grows


def test_the_rest_of_a_pruned_run_is_left_out_of_a_fork() -> None:
    kinds = ("tool_result A", "user_message B", "tool_call A", "tool_result A", "run_complete A", "run_started B")
    events = [
        Event("sess_1", seq, 0, kind.split()[0], msgspec.Raw(b"{}"), kind.split()[1])
        for seq, kind in enumerate(kinds, 1)
    ]
    assert [event.type for event in without_begun(events)] == ["user_message", "run_started"]


def test_free_pages_of_a_database_take_no_disk(tmp_path: Path) -> None:
    def disk() -> float:
        taken = sample(os.getpid(), tmp_path, 0, 0)
        assert taken is not None
        return taken.values["log"]

    db = connect(tmp_path / "buddy.db", apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE)
    db.execute("CREATE TABLE texts (text TEXT)")
    db.execute("INSERT INTO texts VALUES (hex(zeroblob(1000000)))")
    full = disk()
    db.execute("DELETE FROM texts")
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert (full > 1.5, disk() < 0.1) == (True, True)
    db.close()
