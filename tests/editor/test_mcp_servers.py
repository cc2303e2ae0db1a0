"""MCP servers that an editor hands over: their tools are the session's, and their secrets stay out of the log."""

import json
import sys
from pathlib import Path

import pytest

from tests.harness.acp_client import AcpClient, RefusedError
from tests.harness.home import Home
from tests.harness.scripts import section, write_config, write_script

SECRET = "token-5d1c88e0b7"
SERVER = """
import os
from mcp.server.mcpserver import MCPServer

server = MCPServer("words")


@server.tool()
def shout(text: str) -> str:
    return f"{text.upper()} {len(os.environ['WORDS_TOKEN'])}"


server.run()
"""


@pytest.mark.slow
def test_the_tools_of_an_editors_server_are_used_and_its_secret_is_not_recorded(home: Home, tmp_path: Path) -> None:
    call = {"name": "mcp__my-words__shout", "args": {"text": "hi"}}
    script = {"on": [section("^shout", {"calls": [call]}, {"text": "shouted"})]}
    write_config(home.directory / ".config" / "buddy" / "buddy.toml", write_script(home.directory, script))
    program = tmp_path / "words.py"
    program.write_text(SERVER)
    server = {
        "name": "my words",
        "command": sys.executable,
        "args": [str(program)],
        "env": [{"name": "WORDS_TOKEN", "value": SECRET}],
    }
    with AcpClient(home.work, home.env, "--sandbox", "host") as editor:
        editor.initialize()
        session = editor.new(mcpServers=[server])["sessionId"]
        assert editor.prompt(session, "shout it") == "end_turn"
        assert [asked["toolCall"]["kind"] for asked in editor.asked] == ["other"]
        (result,) = [update for update in editor.of("tool_call_update") if update.get("status") == "completed"]
        assert f"HI {len(SECRET)}" in json.dumps(result)
        with pytest.raises(RefusedError, match="sse is not supported"):
            editor.new(mcpServers=[{"type": "sse", "name": "old", "url": "http://127.0.0.1:9", "headers": []}])
    assert SECRET.encode() not in home.everything()
