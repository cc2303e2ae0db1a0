"""Agents that a program passes in by code: a function, and one that two runtimes share."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from buddy.backends.external.contract import AgentEvent, Delta, ToolEnded, ToolStarted
from buddy.backends.external.own import FunctionAgent, SharedAgent, Turn
from buddy.daemon.runtime import RuntimeOverrides, unix_ms
from buddy.errors import ProtocolError
from buddy.log.memory import MemoryLog
from buddy.protocol.events import ApprovalReceived, AssistantToken, RunComplete, SessionStarted, ToolClaimed, ToolResult
from buddy.protocol.requests import ProjectOptions, ProjectOptionsReply
from tests.backends.test_table import ask, decide
from tests.harness.runtime import check_host, scripted_host


async def helper(turn: Turn) -> AsyncIterator[AgentEvent]:
    """Says what it hears; `touch NAME` makes a file, if it may; `wait` waits; `fail` raises."""
    word, _, rest = turn.text.partition(" ")
    if word == "touch":
        yield ToolStarted("call-1", "touch", {"name": rest})
        answer = await turn.ask("call-1", "touch", "write", path=rest, args={"name": rest})
        if answer.approved:
            (Path(turn.cwd) / rest).touch()
        yield ToolEnded("call-1", "made" if answer.approved else answer.reason, is_error=not answer.approved)
    if word == "wait":
        yield Delta("waiting")
        await turn.ask("call-2", "anything")
    if word == "fail":
        raise ValueError("my own bug")
    yield Delta(f"heard {turn.text}")


def with_agents(**agents: FunctionAgent | SharedAgent) -> RuntimeOverrides:
    return RuntimeOverrides(
        log=MemoryLog(unix_ms), agents={name: (lambda one=agent: one) for name, agent in agents.items()}
    )


async def test_a_function_is_an_agent_under_the_same_rules(tmp_path: Path) -> None:
    overrides = with_agents(helper=FunctionAgent("helper", helper))
    async with scripted_host(tmp_path, overrides=overrides) as host, host.client() as client:
        options = await client.api.request(ProjectOptions(), ProjectOptionsReply)
        assert "helper" in options.agent_runtimes.available
        await client.start(agent_runtime="helper")
        assert (await ask(client, "hello")).summary == "heard hello"
        run_id = await client.send("touch one")
        asked = await decide(client, run_id, "approve")
        assert (asked.kind, asked.details["path"], asked.details["agent"]) == ("write", str(tmp_path / "one"), "helper")
        assert (await client.wait_for(RunComplete)).outcome == "success"
        assert (tmp_path / "one").exists()
        assert len(client.bodies(ToolClaimed)) == 1
        await decide(client, await client.send("touch two"), "deny", "not that")
        assert (await client.wait_for(RunComplete)).outcome == "success"
        assert [result.text for result in client.bodies(ToolResult)] == ["made", "not that"]
        assert not (tmp_path / "two").exists()
        failed = await ask(client, "fail")
        assert (failed.outcome, failed.summary) == ("failed", "ValueError: my own bug")
        run_id = await client.send("wait")
        await client.wait_for(AssistantToken, lambda token: "waiting" in token.text)
        await client.api.cancel(client.session_id, run_id)
        assert (await client.wait_for(RunComplete)).outcome == "cancelled"
        assert (await ask(client, "again")).outcome == "success"
        await check_host(host)


async def test_a_planning_session_denies_what_a_function_asks(tmp_path: Path) -> None:
    overrides = with_agents(helper=FunctionAgent("helper", helper))
    async with scripted_host(tmp_path, overrides=overrides) as host, host.client() as client:
        await client.start(agent_runtime="helper", plan=True)
        assert (await ask(client, "touch one")).outcome == "success"
        assert [decision.by for decision in client.bodies(ApprovalReceived)] == ["rule:plan"]
        assert not (tmp_path / "one").exists()


async def test_two_runtimes_share_one_agent(tmp_path: Path) -> None:
    shared = SharedAgent(FunctionAgent("helper", helper))
    for _ in range(2):
        async with (
            scripted_host(tmp_path, overrides=with_agents(shared=shared)) as host,
            host.client() as client,
        ):
            await client.start(agent_runtime="shared")
            assert (await ask(client, "hello")).summary == "heard hello"
            started = client.bodies(SessionStarted)[0].options
            assert started is not None
            assert started.agent_runtime == "shared"


async def test_an_agent_that_was_not_passed_in_is_unknown(tmp_path: Path) -> None:
    async with scripted_host(tmp_path) as host, host.client() as client:
        with pytest.raises(ProtocolError, match="unknown agent runtime 'helper'"):
            await client.start(agent_runtime="helper")
