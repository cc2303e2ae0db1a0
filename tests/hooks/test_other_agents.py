"""Hooks and other agents: their permission requests pass the same guards, and a replay needs no scripts."""

from pathlib import Path

import pytest

from buddy.protocol.events import ApprovalReceived, HookFinished, RunComplete, ToolResult
from tests.backends.agents import AGENTS, Agent, agent_host
from tests.backends.test_table import decide
from tests.hooks.hooking import deciding, hook, user_hooks
from tests.replay.recordings import assert_same, recorded

NAMED = pytest.mark.parametrize(
    "agent", [agent for agent in AGENTS if agent.name != "native"], ids=lambda one: one.name
)


def config_of(workspace: Path) -> Path:
    """Where a host for another agent has its configuration."""
    return workspace.parent / f"{workspace.name}-programs"


@NAMED
async def test_a_hook_refuses_what_another_agent_wants(agent: Agent, tmp_path: Path) -> None:
    user_hooks(
        config_of(tmp_path),
        PreToolUse=hook("cat > seen.json; echo not here >&2; exit 2", "Bash"),
        PostToolUse=hook("true"),
    )
    async with agent_host(agent, tmp_path) as host, host.client() as client:
        await client.start(approval_policy="all")
        await client.send("run touch forbidden")
        await client.wait_for(RunComplete)
        assert not (tmp_path / "forbidden").exists()
        assert '"command":"touch forbidden"' in (tmp_path / "seen.json").read_text()
        [received] = client.bodies(ApprovalReceived)
        assert (received.decision, received.by) == ("deny", "hook")
        assert [body.verdict for body in client.bodies(HookFinished)] == ["deny"]
        session = host.runtime.sessions.live(client.session_id)
        assert session is not None
        await session.journal.commit()
        await assert_same(await recorded(host.runtime.log, client.session_id))


@pytest.mark.slow
@pytest.mark.parametrize(("answer", "by"), [(deciding("ask"), "cli"), (deciding("allow"), "hook"), ("exit 1", "cli")])
async def test_a_hook_asks_or_allows(tmp_path: Path, answer: str, by: str) -> None:
    agent = next(agent for agent in AGENTS if agent.name == "acp")
    user_hooks(config_of(tmp_path), PreToolUse=hook(answer, "Bash"), PostToolUse=hook("true"))
    async with agent_host(agent, tmp_path) as host, host.client() as client:
        await client.start(approval_policy="ask" if by == "hook" else "all")
        run_id = await client.send("run touch made")
        if by == "cli":
            await decide(client, run_id, "approve")
        await client.wait_for(RunComplete)
        assert (tmp_path / "made").exists()
        assert [body.by for body in client.bodies(ApprovalReceived)] == [by]
        assert [body.outcome for body in client.bodies(ToolResult)] == ["returned"]
        assert [body.event for body in client.bodies(HookFinished)] == ["PreToolUse", "PostToolUse"]
        session = host.runtime.sessions.live(client.session_id)
        assert session is not None
        await session.journal.commit()
        await assert_same(await recorded(host.runtime.log, client.session_id))


async def test_input_of_another_agent_cannot_be_changed(tmp_path: Path) -> None:
    agent = next(agent for agent in AGENTS if agent.name == "acp")
    user_hooks(config_of(tmp_path), PreToolUse=hook(deciding("allow", updatedInput={"command": "true"}), "Bash"))
    async with agent_host(agent, tmp_path) as host, host.client() as client:
        await client.start(approval_policy="all")
        await client.send("run touch made")
        await client.wait_for(RunComplete)
        assert not (tmp_path / "made").exists()
        [finished] = client.bodies(HookFinished)
        assert finished.verdict == "deny"
