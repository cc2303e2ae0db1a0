"""A project's `.mcp.json` has no effect until its folder is trusted, and none after it was changed."""

import asyncio
import json
import sys
from pathlib import Path

from buddy.approvals.trust import effects_of
from buddy.protocol.events import RunComplete, ToolResult, WarningRaised
from tests.harness.models import StepModel, answer, asks_for, call
from tests.harness.processes import PATIENCE
from tests.harness.runtime import RuntimeHost, checked_host
from tests.tools.mcp.servers import MODULES, lines


def write_project(folder: Path, ledger: Path, name: str = "local") -> None:
    server = {
        "command": sys.executable,
        "args": ["-m", "tests.harness.mcp_server"],
        "env": {**MODULES, "MCP_LEDGER": str(ledger)},
    }
    (folder / ".mcp.json").write_text(json.dumps({"mcpServers": {name: server}}))


async def call_once(host: RuntimeHost) -> tuple[ToolResult, list[WarningRaised]]:
    async with host.client() as client, asyncio.timeout(PATIENCE):
        await client.start(approval_policy="all")
        await client.send("go")
        await client.wait_for(RunComplete)
        (result,) = client.bodies(ToolResult)
        return result, client.bodies(WarningRaised)


async def test_a_projects_servers_run_only_while_its_folder_is_trusted_as_it_is(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    model = StepModel(*[asks_for(call("mcp__local__echo", {"text": "a"})), answer()] * 3)
    write_project(tmp_path, ledger)
    async with checked_host(tmp_path, model) as host:
        result, warnings = await call_once(host)
        assert "unknown tool" in result.text and not ledger.exists()
        assert [one.code for one in warnings] == ["FOLDER_NOT_TRUSTED"]
        host.runtime.trust(str(tmp_path), trusted=True)
        result, warnings = await call_once(host)
        assert result.text == "echo: a" and warnings == []
        write_project(tmp_path, ledger, "renamed")
        result, warnings = await call_once(host)
        assert "unknown tool" in result.text and [one.code for one in warnings] == ["FOLDER_NOT_TRUSTED"]
        assert lines(ledger) == ["echo a"]


def test_the_question_of_trust_names_the_servers_that_would_be_started(tmp_path: Path) -> None:
    entries = {"files": {"command": "npx", "args": ["-y", "${THING:-x}"]}, "web": {"url": "https://example.com/mcp"}}
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": entries}))
    (effect,) = effects_of(str(tmp_path))
    assert effect.text == "starts MCP servers: files (npx -y ${THING:-x}), web (https://example.com/mcp)"
    secret = {"url": "https://example.com/mcp?to=${WHERE}", "headers": {"X-Sent": "${HOME}"}}
    program = {"command": "node", "args": ["a b"], "env": {"NODE_OPTIONS": "--require ./x.js"}, "cwd": "/elsewhere"}
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": {"web": secret, "run": program}}))
    (effect,) = effects_of(str(tmp_path))
    assert "web (https://example.com/mcp?to=${WHERE}; headers X-Sent=${HOME})" in effect.text
    assert 'run (node "a b"; env NODE_OPTIONS=--require ./x.js; in /elsewhere)' in effect.text
    (tmp_path / ".mcp.json").write_text("{")
    assert effects_of(str(tmp_path))[0].text.startswith("names MCP servers, but cannot be read")
