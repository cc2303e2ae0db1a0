"""What is specific to ACP: modes, logins, resuming, invalid messages, and the content of permission requests."""

import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import uuid4

import pytest

from buddy.backends.acp.agent import Acp
from buddy.backends.acp.presets import PRESETS
from buddy.backends.external import adapter
from buddy.backends.external.contract import AgentRequest, Completion, Delta, Executor, SessionLost
from buddy.errors import ProtocolError, ProviderError, UserError
from buddy.protocol.events import (
    ApprovalReceived,
    ApprovalRequired,
    AssistantMessage,
    AssistantToken,
    RunComplete,
    SessionStarted,
    ToolClaimed,
    ToolOutput,
    ToolResult,
    WarningRaised,
)
from buddy.protocol.shapes import BudgetLimits, RunOptions
from buddy.targets.local import Local
from tests.backends.agents import AGENTS, FAKES, agent_host
from tests.backends.test_table import ask, decide

COMMAND = f"{sys.executable} {FAKES / 'acp.py'}"
ACP = next(agent for agent in AGENTS if agent.name == "acp")


@asynccontextmanager
async def talking(cwd: Path, **more: object) -> AsyncGenerator[Executor]:
    agent = Acp(COMMAND, {})
    await agent.start(Local(), str(cwd))
    executor = await agent.execute(AgentRequest("", str(cwd), uuid4().hex, **more))  # pyright: ignore[reportArgumentType] - passed through
    try:
        yield executor
    finally:
        await executor.close()


async def said(executor: Executor, text: str) -> tuple[str, Completion]:
    await executor.send_message(text)
    pieces: list[str] = []
    async for event in executor.events():
        match event:
            case Delta():
                pieces.append(event.text)
            case Completion():
                return "".join(pieces).strip(), event
            case _:
                pass
    raise AssertionError("the agent was gone before it was done")


async def test_the_comment_on_a_denial_reaches_the_agent_in_the_same_run(tmp_path: Path) -> None:
    async with agent_host(ACP, tmp_path) as host, host.client() as client:
        await client.start()
        for comment, heard in (("Not now.", "That was not allowed. Not now. Continue without it."), (None, "")):
            run_id = await client.send("run touch forbidden")
            await decide(client, run_id, "deny", comment)
            ended = await client.wait_for(RunComplete)
            assert (ended.outcome, ended.summary.strip()) == ("success", f"reject_once{heard}")


async def test_a_conversation_has_the_agents_session_id_and_ends_when_closed(tmp_path: Path) -> None:
    async with talking(tmp_path) as executor:
        assert executor.backend_session_id.startswith("theirs-")
        assert await said(executor, "say one two") == ("one two", Completion("completed"))
        assert not executor.is_closed
    assert executor.is_closed
    assert executor.done.is_set()


async def test_execute_once_sends_a_single_message(tmp_path: Path) -> None:
    agent = Acp(COMMAND, {})
    await agent.start(Local(), str(tmp_path))
    result = await agent.execute_once(AgentRequest("run touch made", str(tmp_path), uuid4().hex))
    assert result.reason == "completed"
    assert not (tmp_path / "made").exists()


async def test_the_history_that_a_resumed_session_repeats_is_ignored(tmp_path: Path) -> None:
    async with talking(tmp_path) as executor:
        await said(executor, "say first")
        theirs = executor.backend_session_id
    async with talking(tmp_path, session_id=theirs) as executor:
        assert await said(executor, "recall") == ("1 before", Completion("completed"))


async def test_a_session_unknown_to_the_agent_is_lost(tmp_path: Path) -> None:
    with pytest.raises(SessionLost, match="no such session"):
        async with talking(tmp_path, session_id="theirs-0"):
            pass


async def test_an_agent_that_cannot_resume_loses_the_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_AGENT", "forgetful")
    with pytest.raises(SessionLost, match="cannot resume a session"):
        async with talking(tmp_path, session_id="theirs-0"):
            pass


async def test_a_missing_login_is_reported_with_the_login_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_AGENT", "login")
    with pytest.raises(UserError, match="requires a login"):
        async with talking(tmp_path):
            pass


async def test_another_version_of_the_protocol_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_AGENT", "future")
    with pytest.raises(ProviderError, match="speaks ACP 9"):
        async with talking(tmp_path):
            pass


async def test_garbage_on_the_wire_is_skipped(tmp_path: Path) -> None:
    async with talking(tmp_path) as executor:
        assert await said(executor, "garbage") == ("still here", Completion("completed"))


async def test_an_error_in_an_unexpected_shape_is_an_error(tmp_path: Path) -> None:
    async with talking(tmp_path) as executor:
        _, ended = await said(executor, "fail")
        assert ended.reason == "error"
        assert "an unexpected shape" in ended.error


async def test_an_agent_that_closes_stdout_but_keeps_running_is_ended(tmp_path: Path) -> None:
    async with agent_host(ACP, tmp_path) as host, host.client() as client:
        await client.start()
        await client.send("mute")
        ended = await client.wait_for(RunComplete)
        assert ended.outcome == "failed"
        assert "while working" in ended.summary
        await ask(client, "say again")
        assert client.bodies(RunComplete)[-1].outcome == "success"


async def test_an_agent_that_does_not_name_its_session_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_AGENT", "nameless")
    with pytest.raises(ProviderError, match="without an id"):
        async with talking(tmp_path):
            pass


async def test_a_cost_limit_is_refused_with_an_alternative(tmp_path: Path) -> None:
    async with agent_host(ACP, tmp_path) as host, host.client() as client:
        await client.start()
        with pytest.raises(ProtocolError, match="is unknown") as refused:
            await client.send("say x", options=RunOptions(budget=BudgetLimits(max_cost_usd=1)))
        assert "does not report its cost: limit turns" in (refused.value.detail or "")


async def test_each_file_of_a_change_must_be_allowed(tmp_path: Path) -> None:
    async with agent_host(ACP, tmp_path) as host, host.client() as client:
        await client.start()
        run_id = await client.send("patch one.txt sub/two.txt")
        first = await decide(client, run_id, "approve")
        second = await decide(client, run_id, "deny")
        asked = [question.details["path"] for question in (first, second)]
        assert asked == [str(tmp_path / "one.txt"), str(tmp_path / "sub/two.txt")]
        await client.wait_for(RunComplete)
        assert client.bodies(ToolClaimed) == []
        run_id = await client.send("patch one.txt sub/two.txt")
        await decide(client, run_id, "approve")
        await decide(client, run_id, "approve")
        await client.wait_for(RunComplete)
        assert len(client.bodies(ToolClaimed)) == 1


async def test_a_command_is_shown_where_it_runs(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    async with agent_host(ACP, tmp_path) as host, host.client() as client:
        await client.start()
        run_id = await client.send("there sub pwd")
        assert (await decide(client, run_id, "approve")).details["command"] == "cd sub && pwd"
        await client.wait_for(RunComplete)
        run_id = await client.send(f"there {tmp_path} pwd")
        assert (await decide(client, run_id, "approve")).details["command"] == "pwd"
        await client.wait_for(RunComplete)


async def test_a_refusal_is_not_a_success(tmp_path: Path) -> None:
    async with talking(tmp_path) as executor:
        _, completion = await said(executor, "refuse")
        assert completion.reason == "error"
        assert "refusal" in completion.error


async def test_plan_selects_the_agents_planning_mode(tmp_path: Path) -> None:
    async with talking(tmp_path, plan=True) as executor:
        asked = json.loads((tmp_path / ".fake-agent.asked").read_text())
        assert asked == ["session/set_mode", {"sessionId": executor.backend_session_id, "modeId": "plan"}]


async def test_a_planning_session_of_an_agent_without_a_planning_mode_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_AGENT", "planless")
    async with agent_host(ACP, tmp_path) as host, host.client() as client:
        with pytest.raises(ProtocolError, match="has no planning mode") as refused:
            await client.start(plan=True)
        assert refused.value.code == "INVALID_REQUEST"
        assert "--unsafe-agent" in (refused.value.detail or "")
        await client.start(plan=True, unsafe_agent=True)
        assert (await ask(client, "run touch made")).outcome == "success"
        assert [decision.by for decision in client.bodies(ApprovalReceived)] == ["rule:plan"]
        assert [warning.code for warning in client.bodies(WarningRaised)] == ["UNSAFE_AGENT"]
        started = client.bodies(SessionStarted)[0].options
        assert started is not None
        assert started.unsafe_agent
    assert not (tmp_path / "made").exists()


async def test_a_mode_that_skips_questions_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_AGENT", "yolo")
    async with agent_host(ACP, tmp_path) as host, host.client() as client:
        await client.start()
        await ask(client, "say hello")
        method, params = json.loads((tmp_path / ".fake-agent.asked").read_text())
        assert (method, params["modeId"]) == ("session/set_mode", "read-only")


async def test_an_agent_that_does_what_was_denied_is_stopped(tmp_path: Path) -> None:
    async with agent_host(ACP, tmp_path) as host, host.client() as client:
        await client.start()
        await decide(client, await client.send("anyway touch made"), "deny")
        ended = await client.wait_for(RunComplete)
        assert ended.outcome == "failed"
        assert "did what was denied" in ended.summary
        assert "--unsafe-agent" in ended.summary
        assert (await ask(client, "say still here")).outcome == "success"
    async with agent_host(ACP, tmp_path) as host, host.client() as client:
        await client.start(unsafe_agent=True)
        await decide(client, await client.send("anyway touch made"), "deny")
        assert (await client.wait_for(RunComplete)).outcome == "success"
        assert any("did what was denied" in warning.message for warning in client.bodies(WarningRaised))


async def test_the_output_of_a_call_is_not_the_text_of_its_question(tmp_path: Path) -> None:
    async with agent_host(ACP, tmp_path) as host, host.client() as client:
        await client.start()
        await decide(client, await client.send("codex echo real"), "approve")
        await client.wait_for(RunComplete)
        assert [result.text for result in client.bodies(ToolResult)] == ["real\n"]
        assert "May I" not in "".join(output.text for output in client.bodies(ToolOutput))


async def test_a_cancel_that_is_ignored_ends_the_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapter, "PATIENCE", 0.05)
    async with agent_host(ACP, tmp_path) as host, host.client() as client:
        await client.start()
        run_id = await client.send("deaf")
        await client.wait_for(AssistantToken)
        await client.api.cancel(client.session_id, run_id)
        assert (await client.wait_for(RunComplete)).outcome == "cancelled"
        assert (await ask(client, "recall")).summary == "1 before"


async def test_a_model_is_a_config_option_of_the_session(tmp_path: Path) -> None:
    async with talking(tmp_path, model="big-one"):
        method, params = json.loads((tmp_path / ".fake-agent.asked").read_text())
        assert (method, params["configId"], params["value"]) == ("session/set_config_option", "model", "big-one")


async def test_an_edit_is_shown_with_its_diff(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("old")
    async with agent_host(ACP, tmp_path) as host, host.client() as client:
        await client.start()
        run_id = await client.send("edit a.txt new")
        asked = await decide(client, run_id, "approve")
        assert asked.kind == "write"
        assert asked.details["path"] == str(tmp_path / "a.txt")
        assert "-old" in asked.details["diff"]
        assert "+new" in asked.details["diff"]
        await client.wait_for(RunComplete)
    assert (tmp_path / "a.txt").read_text() == "new"


async def test_an_option_to_always_allow_is_never_chosen(tmp_path: Path) -> None:
    async with agent_host(ACP, tmp_path) as host, host.client() as client:
        await client.start()
        run_id = await client.send("always touch made")
        await decide(client, run_id, "approve")
        await client.wait_for(RunComplete)
        assert "no way to allow this once" in client.bodies(WarningRaised)[0].message
        assert client.bodies(ToolResult)[0].is_error
    assert not (tmp_path / "made").exists()


async def test_a_lost_session_starts_over_with_the_earlier_conversation(tmp_path: Path) -> None:
    async with agent_host(ACP, tmp_path) as host, host.client() as client:
        await client.start()
        await ask(client, "say the word is plum")
        await ask(client, "die")
        (tmp_path / ".fake-agent.json").unlink()
        await ask(client, "say more")
        assert client.bodies(WarningRaised)[0].code == "BACKEND_SESSION_LOST"
        assert "plum" in client.bodies(AssistantMessage)[-1].text  # the fake repeats what it received


async def test_each_call_has_its_own_approval_and_id(tmp_path: Path) -> None:
    async with agent_host(ACP, tmp_path) as host, host.client() as client:
        await client.start()
        for name in ("one", "two"):
            run_id = await client.send(f"run touch {name}")
            await decide(client, run_id, "approve")
            await client.wait_for(RunComplete)
        assert len({asked.approval_id for asked in client.bodies(ApprovalRequired)}) == 2
        assert len({result.call_id for result in client.bodies(ToolResult)}) == 2


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_that_is_not_installed_names_its_install_command(name: str) -> None:
    with pytest.raises(UserError) as missing:
        Acp(name, {"PATH": "/nowhere"}).check()
    assert missing.value.hint == PRESETS[name].install


def test_a_command_with_a_broken_quote_is_refused() -> None:
    with pytest.raises(UserError, match="not a valid command"):
        Acp("agent 'half", {})


@pytest.mark.parametrize(("name", "file"), [("opencode", ".opencode/plugin/x.js"), ("droid", ".factory/settings.json")])
async def test_a_repository_with_settings_for_the_agent_must_be_trusted(name: str, file: str, tmp_path: Path) -> None:
    (tmp_path / file).parent.mkdir(parents=True)
    (tmp_path / file).write_text("{}")
    agent = Acp(name, {"PATH": "/nowhere", "HOME": "/nowhere"})
    await agent.start(Local(), str(tmp_path))
    with pytest.raises(UserError, match=r"not trusted|unasked"):
        await agent.execute(AgentRequest("", str(tmp_path), uuid4().hex))
    trusting = Acp(name, {"PATH": "/nowhere", "HOME": "/nowhere"}, lambda _: True)
    await trusting.start(Local(), str(tmp_path))
    with pytest.raises(UserError, match="not installed"):
        await trusting.execute(AgentRequest("", str(tmp_path), uuid4().hex))
