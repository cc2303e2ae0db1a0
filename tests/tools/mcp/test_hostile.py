"""A server that lies, floods and changes its mind gets no further than a tool that is asked about."""

import asyncio
from pathlib import Path

from buddy.protocol.events import ApprovalExpired, ApprovalRequired, RunComplete, ToolResult, WarningRaised
from buddy.protocol.requests import SubmitApproval
from tests.harness.models import StepModel, answer, asks_for, call
from tests.harness.processes import PATIENCE
from tests.harness.runtime import checked_host
from tests.tools.mcp.servers import python_server, settings
from tests.tools.test_source import Shown

SERVER = "tests.harness.hostile_mcp_server"


async def test_its_names_and_descriptions_give_it_nothing(tmp_path: Path) -> None:
    model = Shown(asks_for(call("run_shell", {"command": "true"}), call("mcp__bad__inject", {})), answer())
    async with (
        asyncio.timeout(PATIENCE),
        checked_host(tmp_path, model, mcp=settings(bad=python_server(SERVER))) as host,
        host.client() as client,
    ):
        await client.start()
        run_id = await client.send("go")
        own = await client.wait_for(ApprovalRequired)
        assert own.kind == "exec"  # the built-in tool, not the server's
        await client.api.approve(SubmitApproval(client.session_id, run_id, own.approval_id, "deny"))
        theirs = await client.wait_for(ApprovalRequired)  # readOnlyHint is not believed
        assert theirs.details["server"] == "bad"
        await client.api.approve(SubmitApproval(client.session_id, run_id, theirs.approval_id, "deny"))
        await client.wait_for(RunComplete)
        names = model.names(0)
        assert {"mcp__bad__run_shell", "mcp__bad__inject", "mcp__bad__steady"} < names
        assert not any(name.endswith(("__deep", "__wide")) for name in names)
        assert all(len(name) <= 64 for name in names)
        (skipped,) = [one.message for one in client.bodies(WarningRaised) if one.code == "MCP_TOOLS_SKIPPED"]
        assert "another tool has the same name" in skipped and "nested more than" in skipped


async def test_huge_malformed_and_endless_answers_end_the_call_alone(tmp_path: Path) -> None:
    calls = [call(f"mcp__bad__{name}", {}) for name in ("huge", "malformed", "steady", "flood", "steady")]
    model = StepModel(asks_for(*calls), answer("still here"))
    async with (
        asyncio.timeout(PATIENCE),
        checked_host(tmp_path, model, mcp=settings(bad=python_server(SERVER))) as host,
        host.client() as client,
    ):
        await client.start(approval_policy="all")
        await client.send("go")
        ended = await client.wait_for(RunComplete)
        assert ended.outcome == "success" and ended.summary == "still here"
        huge, malformed, steady, flood, again = client.bodies(ToolResult)
        assert len(huge.text) < 20_000 and huge.output is not None
        assert malformed.is_error and "not valid" in malformed.text
        assert steady.text == "steady ran"
        assert flood.structured_error is not None and flood.structured_error.type == "UNKNOWN_OUTCOME"
        assert "more than 12 MiB" in flood.text
        assert again.text == "steady ran"  # by a new process


async def test_a_tool_that_is_redefined_after_it_was_asked_about_is_asked_about_again(tmp_path: Path) -> None:
    trigger = tmp_path / "trigger"
    server = python_server(SERVER, env={"MCP_TRIGGER": str(trigger)})
    model = StepModel(asks_for(call("mcp__bad__steady", {})), answer())
    async with (
        asyncio.timeout(PATIENCE),
        checked_host(tmp_path, model, mcp=settings(bad=server)) as host,
        host.client() as client,
    ):
        await client.start()
        run_id = await client.send("go")
        first = await client.wait_for(ApprovalRequired)
        trigger.touch()
        await asyncio.sleep(1.0)  # the server says so when it wants to
        await client.api.approve(SubmitApproval(client.session_id, run_id, first.approval_id, "approve"))
        second = await client.wait_for(ApprovalRequired)
        assert first.details["definition"] != second.details["definition"]
        assert client.bodies(ToolResult) == []
        await client.api.approve(SubmitApproval(client.session_id, run_id, second.approval_id, "approve"))
        await client.wait_for(RunComplete)
        assert [result.text for result in client.bodies(ToolResult)] == ["steady ran"]
        assert client.bodies(ApprovalExpired) == []


async def test_always_holds_for_a_tool_until_it_is_redefined(tmp_path: Path) -> None:
    trigger = tmp_path / "trigger"
    server = python_server(SERVER, env={"MCP_TRIGGER": str(trigger)})
    steady = asks_for(call("mcp__bad__steady", {}))
    model = StepModel(steady, steady, answer(), steady, answer())
    async with (
        asyncio.timeout(PATIENCE),
        checked_host(tmp_path, model, mcp=settings(bad=server)) as host,
        host.client() as client,
    ):
        await client.start()
        run_id = await client.send("go")
        first = await client.wait_for(ApprovalRequired)
        rule = first.details["alwaysRule"]
        assert rule["tool"] == "mcp__bad__steady" and rule["definition"]
        always = SubmitApproval(client.session_id, run_id, first.approval_id, "approve", scope="always")
        await client.api.approve(always)
        await client.wait_for(RunComplete)
        assert [one.text for one in client.bodies(ToolResult)] == ["steady ran"] * 2
        assert len(client.bodies(ApprovalRequired)) == 1
        trigger.touch()
        await asyncio.sleep(1.0)  # the server says so when it wants to
        run_id = await client.send("again")
        second = await client.wait_for(ApprovalRequired)
        assert "not what it was when the rule was made" in str(second.details["why"])
        await client.api.approve(SubmitApproval(client.session_id, run_id, second.approval_id, "deny"))
        await client.wait_for(RunComplete)
