"""A Droid that stops responding."""

import os
import signal
from pathlib import Path

import pytest

from tests.backends.agents import AGENTS, agent_host
from tests.backends.test_table import ask


def running_droids() -> list[int]:
    """The Droid programs that this process started."""
    children = [
        int(child) for task in Path("/proc/self/task").iterdir() for child in (task / "children").read_text().split()
    ]
    return [child for child in children if b"fakes/droid.py" in Path(f"/proc/{child}/cmdline").read_bytes()]


async def test_a_droid_that_hangs_fails_one_message_and_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("buddy.backends.droid.session.ACCEPT_SECONDS", 1.0)
    agent = next(one for one in AGENTS if one.name == "droid")
    async with agent_host(agent, tmp_path) as host, host.client() as client:
        await client.start()
        assert (await ask(client, "say one")).outcome == "success"
        (hung,) = running_droids()
        os.kill(hung, signal.SIGSTOP)
        failed = await ask(client, "say two")
        assert (failed.outcome, "did not answer" in failed.summary) == ("failed", True)
        monkeypatch.setattr("buddy.backends.droid.session.ACCEPT_SECONDS", 30.0)
        assert (await ask(client, "say three")).outcome == "success"
        assert hung not in running_droids()
