"""Which owners are alive: by /proc on this machine, by heartbeat elsewhere."""

import os
import subprocess
import sys

import pytest

from buddy.log.owners import HEARTBEAT_MS, is_alive, this_owner
from tests.harness.processes import program_environment

NOW = 1_700_000_000_000
SAY_OWNER = "from buddy.log.owners import this_owner; print(this_owner(), flush=True); input()"


def field(owner: str, place: int, value: str) -> str:
    parts = owner.split(":")
    parts[place] = value
    return ":".join(parts)


def test_a_process_has_one_identity() -> None:
    assert this_owner() == this_owner()
    assert this_owner().split(":")[3] == str(os.getpid())


def test_a_living_process_needs_no_heartbeat() -> None:
    assert is_alive(this_owner(), None, NOW)
    assert is_alive(this_owner(), NOW - 100 * HEARTBEAT_MS, NOW)


def test_a_process_is_dead_the_moment_it_ends_even_before_its_parent_asks() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", SAY_OWNER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=program_environment(),
    )
    with process:
        assert process.stdout is not None
        owner = process.stdout.readline().strip()
        assert is_alive(owner, NOW, NOW)
        process.kill()
        # WNOWAIT leaves the zombie in place.
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert not is_alive(owner, NOW, NOW)
    assert not is_alive(owner, NOW, NOW)


def test_a_reused_pid_is_not_the_same_process() -> None:
    assert not is_alive(field(this_owner(), 4, "1"), NOW, NOW)


def test_a_program_that_replaced_another_in_its_process_is_not_that_one() -> None:
    assert not is_alive(field(this_owner(), 5, "0123456789abcdef"), NOW, NOW)


@pytest.mark.parametrize(
    "owner",
    [field(this_owner(), 1, "other-boot"), field(this_owner(), 2, "1"), "somebody", ""],
    ids=["another boot", "another namespace", "no process of ours", "nobody"],
)
def test_a_process_elsewhere_lives_by_its_heartbeat(owner: str) -> None:
    assert is_alive(owner, NOW - HEARTBEAT_MS + 1, NOW)
    assert not is_alive(owner, NOW - HEARTBEAT_MS, NOW)
    assert not is_alive(owner, None, NOW)


def test_a_clock_that_was_set_back_keeps_no_owner_alive() -> None:
    assert not is_alive("somebody", NOW + 3_600_000, NOW)
