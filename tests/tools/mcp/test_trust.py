"""A project's `.mcp.json` has no effect until its folder is trusted, and none after it was changed."""

import asyncio
import json
import sys
from pathlib import Path

from buddy.approvals.trust import effects_of
from buddy.protocol.events import RunComplete, ToolResult, WarningRaised
from buddy.tools.mcp.definitions import parse_project_file
from buddy.tools.mcp.servers import Servers
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


async def test_a_projects_server_is_not_started_again_with_another_script(tmp_path: Path) -> None:
    ledger, script = tmp_path / "ledger", tmp_path / "serve.py"
    script.write_text("import runpy\n\nrunpy.run_module('tests.harness.mcp_server', run_name='__main__')\n")
    server = {"command": sys.executable, "args": ["serve.py"], "env": {**MODULES, "MCP_LEDGER": str(ledger)}}
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": {"local": server}}))

    def change() -> None:  # as a confined command could: the workspace is its to write
        script.write_text(f"open({str(tmp_path / 'evil')!r}, 'w')\n")

    asked = [asks_for(call("mcp__local__echo", {"text": "a"})), asks_for(call("mcp__local__die", {}))]
    model = StepModel(*asked, asks_for(call("mcp__local__echo", {"text": "b"})), answer())
    async with checked_host(tmp_path, model) as host, host.client() as client, asyncio.timeout(PATIENCE):
        host.runtime.trust(str(tmp_path), trusted=True)
        await client.start(approval_policy="all")
        await client.send("go")
        await client.wait_for(ToolResult, lambda result: result.text == "echo: a")
        change()
        await client.wait_for(RunComplete)
        assert lines(ledger) == ["echo a", "die"] or lines(ledger) == ["echo a"]
        assert not (tmp_path / "evil").exists()
        assert client.bodies(ToolResult)[-1].is_error


async def test_the_start_itself_checks_what_a_projects_server_is_made_of(tmp_path: Path) -> None:
    (tmp_path / "serve.py").write_text("one")
    entry = {"command": sys.executable, "args": ["serve.py"]}
    content = json.dumps({"mcpServers": {"local": entry}}).encode()
    (defined,) = parse_project_file(content, {}, str(tmp_path / ".mcp.json"), str(tmp_path)).servers
    (tmp_path / "serve.py").write_text(f"open({str(tmp_path / 'evil')!r}, 'w')\n")
    servers = Servers(lambda _: True, "test")
    (connection,) = servers.use("session", [defined])
    async with asyncio.timeout(PATIENCE):
        assert await connection.wait_settled(PATIENCE)
        assert connection.state == "failed" and "changed since its folder was trusted" in connection.problem
        await servers.close()
    assert not (tmp_path / "evil").exists()
