"""A daemon that cannot stop cleanly ends all the same."""

import subprocess
import sys

from tests.harness.processes import PATIENCE, program_environment

STUCK = """
import asyncio, contextlib
from buddy.daemon.server import end_after

async def never_ends():
    while True:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(3600)

async def serve():
    task = asyncio.create_task(never_ends())
    await asyncio.sleep(0)
    end_after(0.1)

asyncio.run(serve())
"""


def test_what_cannot_be_cancelled_does_not_keep_the_process_alive() -> None:
    done = subprocess.run([sys.executable, "-c", STUCK], env=program_environment(), timeout=PATIENCE, check=False)
    assert done.returncode == 1
