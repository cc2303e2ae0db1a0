"""How much a confined command may use, with each confinement method."""

import os
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from buddy.targets.confine import limits
from buddy.targets.confine.standby import standby
from buddy.targets.confine.target import Confined
from tests.targets.inspect_files import run

FORKS = """
import os, time
made = 0
try:
    for made in range(300):
        if os.fork() == 0:
            time.sleep(60)
except OSError as error:
    print('stopped', made < 64, error.errno)
"""
MEMORY = "print(len(bytearray(400_000_000)))"


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    """Limits that a test can reach."""
    monkeypatch.setattr(limits, "MAX_PROCESSES", 64)
    monkeypatch.setattr(limits, "MAX_FILES_BYTES", 8 * 1024 * 1024)
    monkeypatch.setattr(limits, "memory_bytes", lambda: 200_000_000)
    limits.hierarchies.cache_clear()
    standby.close()  # what waits has the limits from before
    yield
    limits.hierarchies.cache_clear()
    standby.close()


async def test_the_number_of_processes_is_limited(confined: Confined, root: Path, nonce: str) -> None:
    if limits.resource_limits()[0] and os.geteuid() == 0:
        pytest.skip("root is limited by control groups alone, and none can be made here")
    (root / "forks.py").write_text(FORKS)
    assert await run(confined, f"{sys.executable} forks.py", root, nonce) == (0, "stopped True 11\n")


async def test_memory_is_limited(confined: Confined, root: Path, nonce: str) -> None:
    code, output = await run(confined, f"{sys.executable} -c '{MEMORY}'", root, nonce)
    assert code != 0
    assert "400000000" not in output


async def test_memory_is_limited_where_no_group_can_be_made(
    confined: Confined, root: Path, nonce: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "own_groups", list)
    limits.hierarchies.cache_clear()
    assert "for each of them" in limits.describe_limits()
    code, output = await run(confined, f"{sys.executable} -c '{MEMORY}'; ulimit -u", root, nonce)
    assert (code, "MemoryError" in output, output.startswith("64\n")) == (0, True, True)


@pytest.mark.parametrize("place", ["/tmp", "/var/tmp", "/run", "/dev/shm"])  # noqa: S108 - private ones
async def test_private_directories_are_small(confined: Confined, root: Path, nonce: str, place: str) -> None:
    code, output = await run(confined, f"head -c 20000000 /dev/zero >{place}/x; stat -c %s {place}/x", root, nonce)
    assert code == 0
    assert "No space left" in output
    assert int(output.split()[-1] if output.split()[-1].isdigit() else output.split()[0]) <= 8 * 1024 * 1024


async def test_groups_are_removed_with_their_command(confined: Confined, root: Path, nonce: str) -> None:
    await run(confined, f"{sys.executable} -c 'print(1)'; (setsid sleep 60 &)", root, nonce)
    assert not any(os.path.exists(f"{place}/{limits.PREFIX}{nonce}") for place in limits.own_groups())  # noqa: PTH110, ASYNC240 - one look
