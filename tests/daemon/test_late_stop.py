"""A daemon that cannot stop cleanly ends all the same."""

import subprocess
import sys
from pathlib import Path

from tests.harness.processes import PATIENCE, program_environment

STUCK = """
import asyncio, contextlib, pathlib, sys
from buddy.daemon.watchdog import end_after

async def never_ends():
    while True:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(3600)

async def serve():
    task = asyncio.create_task(never_ends())
    await asyncio.sleep(0)
    end_after(0.1, pathlib.Path(sys.argv[1]))

asyncio.run(serve())
"""


def test_what_cannot_be_cancelled_does_not_keep_the_process_alive_and_is_named(tmp_path: Path) -> None:
    logfile = tmp_path / "daemon.log"
    command = [sys.executable, "-c", STUCK, str(logfile)]
    done = subprocess.run(command, env=program_environment(), timeout=PATIENCE, check=False)
    assert done.returncode == 1
    assert "never_ends" in logfile.read_text()
    assert "most recent call first" in logfile.read_text()
