"""The real OpenCode and Droid over ACP: one turn with a permission request each."""

import os
from pathlib import Path

import pytest

from buddy.protocol.events import RunComplete, ToolResult
from tests.backends.agents import Agent, agent_host
from tests.backends.real import at_home, program
from tests.backends.test_table import decide

pytestmark = pytest.mark.slow  # the real programs take seconds to start

MODELS = {"opencode": None, "droid": "custom:Fake-0"}


@pytest.mark.parametrize("name", MODELS)
async def test_a_real_agent_asks_before_it_runs_a_command(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(name)
    workspace, host = tmp_path / "work", tmp_path / "home"
    workspace.mkdir()
    async with at_home(host, monkeypatch):
        agent = Agent("acp-real", runtime=f"acp:{name}", env={"PATH": os.environ["PATH"]})
        async with agent_host(agent, workspace) as host, host.client() as client:
            await client.start(model=MODELS[name])
            run_id = await client.send("run echo once >> ledger.txt")
            asked = await decide(client, run_id, "approve")
            assert asked.details["command"] == "echo once >> ledger.txt"
            ended = await client.wait_for(RunComplete)
            assert ended.outcome == "success", ended
            assert len(client.bodies(ToolResult)) == 1
            assert (workspace / "ledger.txt").read_text() == "once\n"


async def test_a_command_that_opencode_would_not_ask_about_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program("opencode")
    workspace, outside = tmp_path / "work", tmp_path / "outside.txt"
    workspace.mkdir()
    outside.write_text("precious")
    async with at_home(tmp_path / "home", monkeypatch):
        agent = Agent("acp-real", runtime="acp:opencode", env={"PATH": os.environ["PATH"]})
        async with agent_host(agent, workspace) as host, host.client() as client:
            await client.start(approval_policy="none")
            await client.send(f"run > {outside}")
            await client.wait_for(RunComplete)
            assert [body.is_error for body in client.bodies(ToolResult)] == [True]
    assert outside.read_text() == "precious"


@pytest.mark.parametrize("name", MODELS)
async def test_the_comment_on_a_denial_reaches_the_model_and_the_work_continues(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(name)
    workspace = tmp_path / "work"
    workspace.mkdir()
    async with at_home(tmp_path / "home", monkeypatch):
        agent = Agent("acp-real", runtime=f"acp:{name}", env={"PATH": os.environ["PATH"]})
        async with agent_host(agent, workspace) as host, host.client() as client:
            await client.start(model=MODELS[name])
            run_id = await client.send("run touch forbidden")
            await decide(client, run_id, "deny", "Use the other file.")
            ended = await client.wait_for(RunComplete)
            assert ended.outcome == "success", ended
            assert "I heard" in ended.summary
            assert "Use the other file." in ended.summary
    assert not (workspace / "forbidden").exists()
