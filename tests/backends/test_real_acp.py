"""The real OpenCode and Droid over ACP: one turn with a permission request each."""

import os
from pathlib import Path

import pytest

from backends.casts import Cast, scene
from backends.real import at_home, program
from backends.test_table import decide
from buddy.protocol.events import RunComplete, ToolResult

MODELS = {"opencode": None, "droid": "custom:Fake-0"}


@pytest.mark.parametrize("name", MODELS)
async def test_a_real_agent_asks_before_it_runs_a_command(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(name)
    workspace, home = tmp_path / "work", tmp_path / "home"
    workspace.mkdir()
    async with at_home(home, monkeypatch):
        cast = Cast("acp-real", runtime=f"acp:{name}", env={"PATH": os.environ["PATH"]})
        async with scene(cast, workspace) as house, house.client() as guest:
            await guest.start(model=MODELS[name])
            run_id = await guest.send("run echo once >> ledger.txt")
            asked = await decide(guest, run_id, "approve")
            assert asked.details["command"] == "echo once >> ledger.txt"
            ended = await guest.until(RunComplete)
            assert ended.outcome == "success", ended
            assert len(guest.bodies(ToolResult)) == 1
            assert (workspace / "ledger.txt").read_text() == "once\n"
