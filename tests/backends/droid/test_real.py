"""The real Droid, with a model on loopback: what the fake claims of it is true."""

import asyncio
import json
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from buddy.approvals.digest import nonce_of
from buddy.backends.droid.agent import ARGUMENTS, Droid
from buddy.backends.external.contract import (
    AgentRequest,
    Completion,
    Delta,
    Message,
    Permission,
    ToolEnded,
    UsageReport,
)
from buddy.config.places import Places
from buddy.config.settings import AgentSettings, Config, ServerSettings
from buddy.daemon.runtime import Runtime, RuntimeOverrides, unix_ms
from buddy.log.memory import MemoryLog
from buddy.protocol.events import ApprovalRequired, AssistantMessage, RunComplete, ToolResult, Usage
from buddy.protocol.requests import SubmitApproval
from buddy.targets import orphans
from buddy.targets.local import Local
from tests.backends.droid.program import workspace
from tests.backends.real import QUIET, program
from tests.backends.talking import listen, no, send, until, yes
from tests.harness.fake_model import Answer, FakeModel, delta, ending, says
from tests.harness.fake_model import Request as Asked
from tests.harness.runtime import RuntimeHost, crash

pytestmark = pytest.mark.slow  # the real program takes seconds to start

USAGE = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
MODEL = "custom:Fake-0"


def obey(request: Asked) -> Answer:
    """A model that calls the tool that the last message names, with the arguments it gives."""
    messages: list[dict[str, Any]] = request.body["messages"]
    if not request.body.get("tools") or messages[-1]["role"] == "tool":
        return Answer(says("All done.", usage=USAGE))
    said = [_text(message) for message in messages if message["role"] == "user"]
    text = next(text for text in reversed(said) if not text.startswith("<"))  # what it adds itself begins with a tag
    name, _, args = text.partition(" ")
    if name == "wait":
        return Answer([delta(content="waiting for it\n")], hang="body")
    if name == "recall":
        before = [message for message in messages if message["role"] == "assistant"]
        return Answer(says(f"{len(before)} before", usage=USAGE))
    if not args.startswith("{"):
        return Answer(says(f"heard: {text}", usage=USAGE))
    call = {"index": 0, "id": "call_1", "type": "function", "function": {"name": name, "arguments": args}}
    return Answer([delta(content="I will. ", tool_calls=[call]), *ending("tool_calls", USAGE)])


def _text(message: dict[str, Any]) -> str:
    content: str | list[dict[str, str]] = message["content"]
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def execute(command: str) -> str:
    args = {"command": command, "summary": "s", "riskLevel": "low", "riskLevelReason": "r"}
    return f"Execute {json.dumps(args)}"


def at_home(tmp_path: Path, model: FakeModel) -> dict[str, str]:
    """An environment in which Droid has the model of the test, and looks up nothing."""
    folder = tmp_path / "home" / ".factory"
    folder.mkdir(parents=True, exist_ok=True)
    known = {"model": "fake", "displayName": "Fake", "baseUrl": model.base_url, "apiKey": "x", "maxOutputTokens": 1000}
    settings = {"customModels": [{**known, "provider": "generic-chat-completion-api"}]}
    (folder / "settings.json").write_text(json.dumps(settings))
    return {**QUIET, "PATH": f"{program('droid').parent}:{os.environ['PATH']}", "HOME": str(tmp_path / "home")}


@asynccontextmanager
async def droid_host(env: dict[str, str], tmp_path: Path, log: MemoryLog) -> AsyncGenerator[RuntimeHost]:
    places = Places(tmp_path / "config", tmp_path / "state", tmp_path / "socket")
    config = Config(agent=AgentSettings(model="none"), server=ServerSettings("droid"))
    runtime = Runtime(config, places, env, RuntimeOverrides(log=log))
    try:
        yield RuntimeHost(runtime, workspace(tmp_path))
    finally:
        await runtime.close()


async def test_a_session_asks_answers_and_continues_after_a_crash(tmp_path: Path) -> None:
    log = MemoryLog(unix_ms)
    async with FakeModel(obey) as model:
        env = at_home(tmp_path, model)
        async with droid_host(env, tmp_path, log) as host, host.client() as client:
            session_id = await client.start(model=MODEL, system_prompt="Speak of tea.")
            run_id = await client.send(execute("echo once >> ledger.txt"))
            asked = await client.wait_for(ApprovalRequired)
            assert (asked.kind, asked.details["command"]) == ("exec", "echo once >> ledger.txt")
            await client.api.approve(SubmitApproval(session_id, run_id, asked.approval_id, "approve"))
            ended = await client.wait_for(RunComplete)
            assert (ended.outcome, ended.summary) == ("success", "All done.")
            assert "exited with code 0" in client.bodies(ToolResult)[0].text
            assert sum(body.input_tokens for body in client.bodies(Usage)) >= 200
            assert any("Speak of tea." in request.raw.decode() for request in model.requests)
            run_id = await client.send(execute("touch forbidden"))
            asked = await client.wait_for(ApprovalRequired)
            await client.api.approve(SubmitApproval(session_id, run_id, asked.approval_id, "deny", "drink it first"))
            assert (await client.wait_for(RunComplete)).outcome == "success"
            assert "drink it first" in client.bodies(AssistantMessage)[-1].text
            await crash(host, session_id)
        async with droid_host(env, tmp_path, log) as host, host.client() as client:
            await client.api.attach(session_id)
            client.session_id = session_id
            run_id = await client.send("recall")
            ended = await client.wait_for(RunComplete, lambda body: body.run_id == run_id)
            assert ended.summary == "4 before"
    assert (workspace(tmp_path) / "ledger.txt").read_text() == "once\n"
    assert not (workspace(tmp_path) / "forbidden").exists()
    assert orphans.find(nonce_of(session_id, "agent")) == []


async def test_harmless_commands_are_asked_about_a_plan_changes_nothing_and_work_can_be_cancelled(
    tmp_path: Path,
) -> None:
    async with FakeModel(obey) as model:
        agent = Droid(at_home(tmp_path, model), tmp_path / "config")
        root = str(workspace(tmp_path))
        await agent.start(Local(), root)
        executor = await agent.execute(AgentRequest("", root, nonce_of(root, "work"), model=MODEL))
        heard = await send(executor, execute("git -c core.fsmonitor=/bin/true status"), yes)
        assert [event.kind for event in heard if isinstance(event, Permission)] == ["exec"]
        assert sum(event.output_tokens for event in heard if isinstance(event, UsageReport)) >= 20
        heard = await send(executor, f"Create {json.dumps({'file_path': f'{root}/new.txt', 'content': 'tea'})}", no)
        asked = next(event for event in heard if isinstance(event, Permission))
        assert (asked.kind, asked.path) == ("write", f"{root}/new.txt")
        assert "+tea" in asked.details["diff"]
        await executor.send_message("wait")
        await until(executor, Delta)
        await executor.cancel()
        assert (await listen(executor))[-1] == Completion("cancelled", "")
        planner = await agent.execute(AgentRequest("", root, nonce_of(root, "plan"), model=MODEL, plan=True))
        heard = await send(planner, 'ExitSpecMode {"title": "T", "plan": "First this."}')
        assert [event.text for event in heard if isinstance(event, Message)] == ["I will. ", "First this."]
        assert [event.is_error for event in heard if isinstance(event, ToolEnded)] == [True]
        assert heard[-1] == Completion("completed", "First this.")
        await agent.close()
    assert not (workspace(tmp_path) / "new.txt").exists()


async def test_a_session_is_not_continued_by_a_flag_in_this_mode(tmp_path: Path) -> None:
    """Why it is loaded by a request: the flag of the same purpose ends the program."""
    env = {**os.environ, **QUIET, "HOME": str(tmp_path)}
    child = await asyncio.create_subprocess_exec(
        program("droid"),
        *ARGUMENTS,
        "-s",
        "5f0c6a5e-0000-4000-8000-000000000000",
        cwd=tmp_path,
        env=env,
        stdin=asyncio.subprocess.PIPE,
    )
    assert await child.wait() != 0
