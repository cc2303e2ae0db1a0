"""`buddy exec` and `buddy resume` under a full disk, a signal and a torn write-ahead log."""

import asyncio
import random
import shutil
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from buddy.protocol.envelopes import Event, parse_incoming
from buddy.protocol.events import RunComplete
from tests.faults.driver import ENDLESS
from tests.faults.scenario import Scenario, left_behind
from tests.harness.checker import Received, Recorded, check
from tests.harness.files import read_ledger
from tests.harness.logs import read_state_dir
from tests.harness.processes import CANARY, RunningCommand

BUILD = ("exec", "build", "--approve", "all", "--stream-json")
WAIT = ("exec", "wait", "--approve", "all", "--stream-json")
RESUME = ("resume", "--last", "--stream-json")
FULL_AT = 6
CUTS = 30
OK, CANCELLED, USAGE, TRY_AGAIN = 0, 2, 64, 75


def events_in(output: str) -> list[Event]:
    return [event for line in output.splitlines() if isinstance(event := parse_incoming(line.encode()), Event)]


async def recorded(scenario: Scenario, *outputs: str) -> Recorded:
    """What these commands left and printed."""
    streams = [events for output in outputs if (events := events_in(output))]
    received = [Received(events[0].session_id, 0, events) for events in streams]
    return Recorded(
        await read_state_dir(scenario.state_dir),
        received,
        read_ledger(scenario.workspace),
        secrets=(CANARY,),
        sinks=[output.encode() for output in outputs],
    )


# --- a full disk ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_disk_that_is_full_for_a_moment_costs_nothing_twice(tmp_path: Path) -> None:
    dry = Scenario(tmp_path / "dry")
    listing = tmp_path / "boundaries"
    assert dry.buddy(*BUILD, listing=listing).code == OK
    last = sum(boundary.startswith("commit.before:") for boundary in listing.read_text().split())
    moments = [1 + index * (last - 1) // FULL_AT for index in range(FULL_AT)]
    with ThreadPoolExecutor(FULL_AT) as pool:
        found = list(pool.map(fill_at, moments, [tmp_path] * FULL_AT))
    assert [problem for problems in found for problem in problems] == []


def fill_at(number: int, folder: Path) -> list[str]:
    scenario = Scenario(folder / f"full-{number}")
    first = scenario.buddy(*BUILD, fault=f"commit.before:{number}:enospc")
    second = scenario.buddy(*RESUME)
    problems: list[str] = []
    if first.code not in (OK, TRY_AGAIN) or (first.code and "is full" not in first.err):
        problems.append(f"exec ended with {first.code}: {first.err}")
    # What was refused before a run was accepted leaves nothing to go on with, and that is said.
    if second.code not in (OK, USAGE) or (second.code and "no " not in second.err):
        problems.append(f"resume ended with {second.code}: {second.err}")
    left = asyncio.run(recorded(scenario, first.out, second.out))
    return [f"commit {number}: {problem}" for problem in [*problems, *check(left), *left_behind(left)]]


# --- a signal ------------------------------------------------------------------------------------------------------


def test_a_run_that_is_asked_to_end_is_cancelled_and_leaves_no_process(tmp_path: Path) -> None:
    scenario = Scenario(tmp_path / "scenario")
    seen: list[bytes] = []
    with RunningCommand(scenario.command(*WAIT), cwd=tmp_path, env=scenario.environment()) as command:
        while not (seen and b"tool_output" in seen[-1] and ENDLESS.encode() in seen[-1]):
            seen.append(command.read_line())
            assert seen[-1], "the run ended by itself"
        command.signal(signal.SIGTERM)
        rest = command.finish()
    assert rest.code == CANCELLED, rest.err
    left = asyncio.run(recorded(scenario, b"".join(seen).decode() + rest.out))
    outcomes = [body.outcome for event in events_in(rest.out) if isinstance(body := event.body(), RunComplete)]
    assert outcomes == ["cancelled"]
    assert [*check(left), *left_behind(left)] == []


# --- a torn write-ahead log ----------------------------------------------------------------------------------------


def test_a_write_ahead_log_cut_anywhere_leaves_a_sound_prefix(tmp_path: Path) -> None:
    scenario = Scenario(tmp_path / "scenario")
    assert scenario.buddy(*BUILD, fault="commit.after:15:kill").code == -signal.SIGKILL
    crashed = tmp_path / "crashed"
    shutil.copytree(scenario.state_dir, crashed)
    asyncio.run(check_cuts(crashed, tmp_path, read_ledger(scenario.workspace)))


async def check_cuts(crashed: Path, folder: Path, ledger: list[str]) -> None:
    wal = (crashed / "buddy.db-wal").read_bytes()
    whole = [event.line() for event in only_session(await copied(crashed, wal, folder / "whole"))]
    chance = random.Random(5)  # noqa: S311 - a seed to repeat, not a secret
    lengths: list[int] = []
    for cut in sorted(chance.randrange(len(wal)) for _ in range(CUTS)):
        log = await copied(crashed, wal[:cut], folder / f"cut-{cut}")
        assert check(Recorded(log, ledger=ledger, complete=False)) == [], f"cut at {cut} of {len(wal)}"
        lines = [event.line() for event in only_session(log)]
        assert lines == whole[: len(lines)], f"cut at {cut} of {len(wal)}"
        lengths.append(len(lines))
    assert lengths == sorted(lengths)
    assert lengths[0] < lengths[-1] <= len(whole)


async def copied(crashed: Path, wal: bytes, place: Path) -> dict[str, list[Event]]:
    """The log of a copy whose write-ahead log ends early."""
    shutil.copytree(crashed, place, ignore=shutil.ignore_patterns("*-shm", "*-wal"))
    (place / "buddy.db-wal").write_bytes(wal)
    return await read_state_dir(place)


def only_session(log: dict[str, list[Event]]) -> list[Event]:
    return [event for events in log.values() for event in events]
