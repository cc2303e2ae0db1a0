"""SIGKILL at every boundary of a scenario of three runs: what is left is sound, and the session continues.

A dry run lists the boundaries. For each chosen one a real process dies there, a second one opens the session again,
brings all runs to their outcome and takes one more message; then the checker judges. `FAULT_POINTS="commit.after:12 …"`
runs just those.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from zlib import crc32

import pytest

from buddy.protocol.events import RunComplete
from tests.faults.driver import SESSION
from tests.faults.scenario import MESSAGES, Scenario
from tests.harness.checker import Recorded
from tests.harness.postgres import Postgres

AT_ONCE = 3
FEWEST_BOUNDARIES = 150
FEW, REPRESENTATIVE, SHARED = 3, 40, 5
SHARES = 10
AFTERWARDS = "afterwards"
# Where the second process is killed: early, while it is still busy with what the first one left.
AGAIN = ("commit.before:2", "commit.after:2", "emit.before:1", "emit.after:2", "commit.after:4", "result.emitted:1")


@pytest.fixture(scope="module")
def boundaries(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Every boundary that an undisturbed scenario passes, in order."""
    folder = tmp_path_factory.mktemp("dry")
    listing = folder / "boundaries"
    scenario = Scenario(folder / "scenario")
    driven = scenario.drive(*MESSAGES, listing=listing)
    assert driven.code == 0, driven.err
    assert asyncio.run(scenario.violations()) == []
    return listing.read_text().split()


def test_the_scenario_passes_enough_boundaries(boundaries: list[str]) -> None:
    sys.stdout.write(f"{len(boundaries)} boundaries\n")
    assert len(boundaries) >= FEWEST_BOUNDARIES
    assert len(set(boundaries)) == len(boundaries)


def test_a_process_that_is_killed_leaves_a_sound_session(boundaries: list[str], tmp_path: Path) -> None:
    asked = os.environ.get("FAULT_POINTS", "").split()
    kinds = spread(boundaries, FEW)
    assert kill_at(asked or kinds[:: -(-len(kinds) // FEW)], tmp_path) == []


@pytest.mark.slow
def test_a_process_on_a_shared_log_that_is_killed_leaves_a_sound_session(
    boundaries: list[str], tmp_path: Path, postgres: Postgres
) -> None:
    assert kill_at(spread(boundaries, SHARED), tmp_path, log=postgres.database) == []


@pytest.mark.slow
@pytest.mark.parametrize("share", range(SHARES))
def test_a_process_killed_at_any_boundary_leaves_a_sound_session(
    boundaries: list[str], tmp_path: Path, share: int
) -> None:
    assert kill_at(share_of(boundaries, share), tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize("again", AGAIN)
def test_a_process_killed_again_while_it_recovers_leaves_a_sound_session(
    boundaries: list[str], tmp_path: Path, again: str
) -> None:
    first = spread(boundaries, REPRESENTATIVE)[AGAIN.index(again) :: len(AGAIN)]
    assert kill_at(first, tmp_path, [again] * len(first)) == []


def share_of(boundaries: list[str], share: int) -> list[str]:
    """Those that fall to one share by their name: the list of another worker may have one more or less."""
    return [boundary for boundary in boundaries if crc32(boundary.encode()) % SHARES == share]


def spread(boundaries: list[str], count: int) -> list[str]:
    """Some of them: of each point in turn, and of each point's own list evenly."""
    points: dict[str, list[str]] = {}
    for boundary in boundaries:
        points.setdefault(boundary.rpartition(":")[0], []).append(boundary)
    share = dict.fromkeys(points, 1)
    while sum(share.values()) < min(count, len(boundaries)):
        point = max(points, key=lambda name: len(points[name]) / share[name] if share[name] < len(points[name]) else 0)
        share[point] += 1
    return [
        found[(2 * index + 1) * len(found) // (2 * share[point])]
        for point, found in points.items()
        for index in range(share[point])
    ]


def kill_at(
    boundaries: Sequence[str], folder: Path, again: Sequence[str] = (), log: Callable[[], str] = str
) -> list[str]:
    """What went wrong, each with the boundary it went wrong at; `again` is where the second process is killed."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        jobs = {
            deaths: pool.submit(kill_and_continue, deaths, folder, log())
            for deaths in (zip(boundaries, again, strict=True) if again else [(boundary,) for boundary in boundaries])
        }
    return [f"{', '.join(deaths)}: {problem}" for deaths, job in jobs.items() for problem in job.result()]


def kill_and_continue(deaths: tuple[str, ...], folder: Path, log_url: str = "") -> list[str]:
    scenario = Scenario(folder / "_".join(deaths).replace(":", "-"), log_url=log_url)
    for boundary in deaths:
        killed = scenario.drive(*MESSAGES, fault=f"{boundary}:kill")
        # What is merged into one commit depends on timing, so the last boundaries are not always there to die at.
        if killed.code not in (-signal.SIGKILL, 0):
            return [f"exit code {killed.code}: {killed.err}"]
    last = scenario.drive(*MESSAGES, AFTERWARDS)
    if last.code != 0:
        return [f"afterwards, exit code {last.code}: {last.err}"]
    return asyncio.run(judge(scenario))


async def judge(scenario: Scenario) -> list[str]:
    recorded = await scenario.recorded()
    outcomes = outcomes_of(recorded, (scenario.folder / SESSION).read_text())
    expected = [["success"], ["cancelled", "success"], ["success"], ["success"]]
    surprises = [
        f"run {number} ended as {outcome}"
        for number, (outcome, allowed) in enumerate(zip(outcomes, expected, strict=False), 1)
        if outcome not in allowed
    ]
    if len(outcomes) != len(expected):
        surprises.append(f"{len(outcomes)} runs instead of {len(expected)}")
    return [*surprises, *await scenario.violations()]


def outcomes_of(recorded: Recorded, session_id: str) -> list[str]:
    bodies = [event.body() for event in recorded.log[session_id]]
    return [body.outcome for body in bodies if isinstance(body, RunComplete)]
