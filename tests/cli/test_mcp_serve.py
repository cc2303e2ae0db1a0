"""`buddy mcp serve`, driven by the SDK's own client: sessions are started and continued, approvals are elicitations."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.session import ClientRequestContext
from mcp_types import CallToolResult, ElicitRequestFormParams, ElicitRequestParams, ElicitResult, TextContent

from tests.harness.home import Home
from tests.harness.processes import BUDDY, PATIENCE
from tests.harness.scripts import section, write_config, write_script

LONG = f"echo {'x' * 17_000}; touch made"
ERA = pytest.mark.parametrize("mode", ["auto", "legacy"])


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path)
    script = {
        "on": [
            section("^hello", {"text": "hello yourself"}),
            section("^long", {"calls": [{"name": "run_shell", "args": {"command": LONG}}]}, {"text": "done"}),
            section(
                "^delegate", {"calls": [{"name": "delegate", "args": {"task": "make a file"}}]}, {"text": "passed on"}
            ),
            section("^make", {"calls": [{"name": "run_shell", "args": {"command": "touch made"}}]}, {"text": "done"}),
        ]
    }
    config = home.directory / ".config" / "buddy" / "buddy.toml"
    write_config(config, write_script(home.directory, script))
    return home


@asynccontextmanager
async def serving(home: Home, mode: str, decide: str = "") -> AsyncGenerator[tuple[Client, list[str]]]:
    asked: list[str] = []

    async def answer(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        del context
        assert isinstance(params, ElicitRequestFormParams)
        asked.append(params.message)
        return ElicitResult(action="accept", content={"decision": decide, "comment": "because"})

    words = [*BUDDY, "mcp", "serve", "--sandbox", "host"]
    server = StdioServerParameters(command=words[0], args=words[1:], env=dict(home.env), cwd=home.work)
    callback = answer if decide else None
    async with asyncio.timeout(PATIENCE), Client(server, mode=mode, elicitation_callback=callback) as client:
        yield client, asked


async def call(client: Client, name: str, **arguments: str) -> CallToolResult:
    return await client.call_tool(name, arguments)


def text_of(result: CallToolResult) -> str:
    return "\n".join(block.text for block in result.content if isinstance(block, TextContent))


def facts_of(result: CallToolResult) -> dict[str, Any]:
    return msgspec.convert(result.structured_content, dict[str, Any])


@ERA
async def test_a_session_is_started_continued_and_seen(home: Home, mode: str) -> None:
    try:
        async with serving(home, mode) as (client, _):
            listed = await client.list_tools()
            assert [tool.name for tool in listed.tools] == ["start", "reply", "status"]
            started = await call(client, "start", prompt="hello")
            assert facts_of(started)["outcome"] == "success" and text_of(started).startswith("hello yourself")
            session_id = facts_of(started)["sessionId"]
            again = await call(client, "reply", session_id=session_id, prompt="hello again")
            assert facts_of(again)["sessionId"] == session_id and not again.is_error
            assert session_id in text_of(await call(client, "status"))
            assert '"completed"' in text_of(await call(client, "status", session_id=session_id))
            missing = await call(client, "reply", session_id="sess_none", prompt="x")
            assert missing.is_error and "sess_none" in text_of(missing)
    finally:
        home.run("daemon", "stop")


@pytest.mark.slow
@ERA
async def test_an_approval_is_asked_where_the_client_can_ask(home: Home, mode: str) -> None:
    try:
        async with serving(home, mode, "approve") as (client, asked):
            done = await call(client, "start", prompt="make it")
        assert facts_of(done)["outcome"] == "success" and (home.work / "made").exists()
        (message,) = asked
        assert "touch made" in message
    finally:
        home.run("daemon", "stop")


@pytest.mark.slow
@ERA
async def test_questions_of_sub_agents_are_asked_too(home: Home, mode: str) -> None:
    try:
        async with serving(home, mode, "approve") as (client, asked):
            done = await call(client, "start", prompt="delegate it")
        assert facts_of(done)["outcome"] == "success" and text_of(done).startswith("passed on")
        assert (home.work / "made").exists()
        start, made = asked
        assert "delegate" in start or "sub-agent" in start
        assert made.startswith("sub-agent general: ") and "touch made" in made
    finally:
        home.run("daemon", "stop")


@pytest.mark.slow
async def test_a_denial_is_passed_on(home: Home) -> None:
    try:
        async with serving(home, "auto", "deny") as (client, asked):
            done = await call(client, "start", prompt="make it")
        assert len(asked) == 1 and facts_of(done)["outcome"] == "success"  # the model goes on without it
        assert not (home.work / "made").exists()
    finally:
        home.run("daemon", "stop")


@pytest.mark.slow
async def test_what_cannot_be_shown_in_full_is_denied_and_not_asked(home: Home) -> None:
    try:
        async with serving(home, "auto", "approve") as (client, asked):
            done = await call(client, "start", prompt="long one")
        assert asked == [] and facts_of(done)["outcome"] == "success"  # the model goes on without it
        assert not (home.work / "made").exists()
        shown = home.run("session", "show", facts_of(done)["sessionId"])
        assert "too long to be shown in full" in shown.out + shown.err
    finally:
        home.run("daemon", "stop")


@pytest.mark.slow
async def test_without_elicitation_a_call_that_needs_approval_is_denied_as_headless(home: Home) -> None:
    try:
        async with serving(home, "auto") as (client, _):
            done = await call(client, "start", prompt="make it")
        assert done.is_error and facts_of(done)["outcome"] == "denied"
        assert not (home.work / "made").exists()
    finally:
        home.run("daemon", "stop")
