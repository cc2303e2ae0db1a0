"""A session uses the tools of an MCP server under the rules that hold for every tool."""

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from buddy.config.mcp import McpSettings
from buddy.protocol.events import (
    ApprovalReceived,
    ApprovalRequired,
    Error,
    RunComplete,
    ToolCall,
    ToolClaimed,
    ToolOutput,
    ToolResult,
    WarningRaised,
)
from buddy.protocol.requests import CancelRun, CancelRunReply, SubmitApproval
from tests.harness.models import StepModel, answer, asks_for, call
from tests.harness.processes import PATIENCE
from tests.harness.runtime import RuntimeClient, checked_host
from tests.replay.recordings import assert_same, recorded
from tests.tools.mcp.servers import lines, plain_server, settings, starts


async def run_to_end(client: RuntimeClient, text: str = "go") -> RunComplete:
    await client.send(text)
    async with asyncio.timeout(PATIENCE):
        ended = await client.wait_for(RunComplete)
    assert ended.reason != "internal_error", client.bodies(Error)
    return ended


async def test_a_tool_is_asked_about_with_its_server_and_all_arguments_claimed_and_called_once(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    model = StepModel(asks_for(call("mcp__one__echo", {"text": "x" * 400})), answer())
    async with checked_host(tmp_path, model, mcp=settings(one=plain_server(ledger))) as host, host.client() as client:
        await client.start()
        run_id = await client.send("go")
        asked = await client.wait_for(ApprovalRequired)
        assert lines(ledger) == []
        assert (asked.kind, asked.title) == ("tool", "use echo of the MCP server one")
        shown = asked.details
        assert (shown["server"], shown["tool"], shown["arguments"]) == ("one", "echo", {"text": "x" * 400})
        assert (shown["target"], shown["sandbox"]) == ("local", "host")
        await client.api.approve(SubmitApproval(client.session_id, run_id, asked.approval_id, "approve"))
        await client.wait_for(RunComplete)
        (announced,), (claimed,), (result,) = (
            client.bodies(ToolCall),
            client.bodies(ToolClaimed),
            client.bodies(ToolResult),
        )
        assert announced.tool_name == "mcp__one__echo" and claimed.tier == "privileged"
        assert result.text == f"echo: {'x' * 400}" and not result.is_error
        assert lines(ledger) == [f"echo {'x' * 400}"]


async def test_results_of_all_kinds_reach_the_model_as_text(tmp_path: Path) -> None:
    calls = [call(f"mcp__one__{name}", args) for name, args in (("add", {"a": 1, "b": 2}), ("picture", {}))]
    model = StepModel(asks_for(*calls, call("mcp__one__fail", {"why": "no"}), call("mcp__one__gone", {})), answer())
    async with checked_host(tmp_path, model, mcp=settings(one=plain_server())) as host, host.client() as client:
        await client.start(approval_policy="all")
        await run_to_end(client)
        added, picture, failed, unknown = client.bodies(ToolResult)
        assert "3" in added.text and added.text.count("total") == 1
        assert picture.text == "Look:\n[image image/png, 1.8 KiB: not shown]\n[resource notes: memo://notes]"
        assert failed.is_error and "Error executing tool fail" in failed.text and failed.outcome == "returned"
        assert unknown.is_error and "unknown tool 'mcp__one__gone'" in unknown.text


@pytest.mark.slow
async def test_a_server_gets_a_minimal_environment_and_what_it_is_configured_with_is_redacted(tmp_path: Path) -> None:
    server = plain_server(env={"MY_TOKEN": "hunter2-hunter2-hunter2"})
    model = StepModel(asks_for(call("mcp__one__environment", {}), call("mcp__one__secret", {})), answer())
    canary = {"CANARY_API_KEY": "canary-value-in-the-environment"}
    async with (
        checked_host(tmp_path, model, mcp=settings(one=server), env=canary) as host,
        host.client() as client,
    ):
        await client.start(approval_policy="all")
        await run_to_end(client)
        environment, secret = client.bodies(ToolResult)
        assert "CANARY_API_KEY" not in environment.text and "MY_TOKEN" in environment.text
        assert "hunter2" not in secret.text and secret.text.startswith("the token is")
        assert "hunter2" not in str(model.received)


@pytest.mark.slow
async def test_a_headless_session_denies_it(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    model = StepModel(asks_for(call("mcp__one__echo", {"text": "a"})), answer())
    async with checked_host(tmp_path, model, mcp=settings(one=plain_server(ledger))) as host, host.client() as client:
        await client.start("headless")
        assert (await run_to_end(client)).outcome == "denied"
        assert lines(ledger) == []


@pytest.mark.slow
async def test_sessions_share_a_server_that_is_configured_alike(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    model = StepModel(*[asks_for(call("mcp__one__echo", {"text": "a"})), answer()] * 2)
    async with checked_host(tmp_path, model, mcp=settings(one=plain_server(ledger))) as host:
        for _ in range(2):
            async with host.client() as client:
                await client.start(approval_policy="all")
                await run_to_end(client)
        assert lines(ledger) == ["echo a", "echo a"] and starts(ledger) == 1


@pytest.mark.slow
async def test_progress_is_shown_while_a_call_runs_and_a_cancel_stops_it(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    model = StepModel(asks_for(call("mcp__one__slow", {"seconds": 200})))
    async with checked_host(tmp_path, model, mcp=settings(one=plain_server(ledger))) as host, host.client() as client:
        await client.start(approval_policy="all")
        run_id = await client.send("go")
        async with asyncio.timeout(PATIENCE):
            shown = await client.wait_for(ToolOutput)
            assert shown.text == "[1/4] step 1\n"
            await client.api.request(CancelRun(client.session_id, run_id), CancelRunReply, client.session_id)
            ended = await client.wait_for(RunComplete)
        assert ended.outcome == "cancelled"
        (result,) = client.bodies(ToolResult)
        assert result.structured_error is not None and result.structured_error.type == "UNKNOWN_OUTCOME"
        assert lines(ledger) == ["slow 200.0"]


@pytest.mark.slow
async def test_a_call_that_takes_too_long_ends_and_the_server_stays_usable(tmp_path: Path) -> None:
    server = replace(plain_server(), timeout_seconds=1.0)
    calls = (call("mcp__one__slow", {"seconds": 200}), call("mcp__one__echo", {"text": "still here"}))
    model = StepModel(asks_for(*calls), answer())
    async with checked_host(tmp_path, model, mcp=settings(one=server)) as host, host.client() as client:
        await client.start(approval_policy="all")
        await run_to_end(client)
        late, echoed = client.bodies(ToolResult)
        assert late.structured_error is not None and late.structured_error.type == "EXEC_TIMEOUT"
        assert "did not answer within 1 s" in late.text and echoed.text == "echo: still here"


@pytest.mark.slow
async def test_a_server_that_dies_is_restarted_and_the_call_has_an_unknown_outcome(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    model = StepModel(
        asks_for(call("mcp__one__die", {})), asks_for(call("mcp__one__echo", {"text": "back"})), answer(), answer()
    )
    async with checked_host(tmp_path, model, mcp=settings(one=plain_server(ledger))) as host, host.client() as client:
        await client.start(approval_policy="all")
        await run_to_end(client)
        died, echoed = client.bodies(ToolResult)
        assert died.structured_error is not None and died.structured_error.type == "UNKNOWN_OUTCOME"
        assert "exited with code 7" in died.text and echoed.text == "echo: back"
        assert lines(ledger) == ["die", "echo back"] and starts(ledger) == 2
        await run_to_end(client, "and now?")
        assert any(one.code.startswith("MCP_SERVER_") for one in client.bodies(WarningRaised))


async def test_a_server_that_cannot_be_started_does_not_hold_up_the_session(tmp_path: Path) -> None:
    model = StepModel(answer("hello"), answer("again"))
    broken = replace(plain_server(), command="sh", args=("-c", "echo out of order >&2; exit 3"))
    missing = replace(plain_server(), command="nowhere")
    both = settings(broken=broken, missing=missing)
    async with checked_host(tmp_path, model, mcp=both) as host, host.client() as client:
        await client.start()
        assert (await run_to_end(client)).outcome == "success"
        said = {one.message for one in client.bodies(WarningRaised) if one.code == "MCP_SERVER_FAILED"}
        assert said == {
            "MCP server 'broken' is not available: it exited with code 3; it wrote: out of order",
            "MCP server 'missing' is not available: nowhere could not be started: No such file or directory",
        }
        await run_to_end(client)
        assert len([one for one in client.bodies(WarningRaised) if one.code == "MCP_SERVER_FAILED"]) == 2


@pytest.mark.slow
async def test_only_enabled_tools_are_offered(tmp_path: Path) -> None:
    server = replace(plain_server(), enabled_tools=("echo", "add"), disabled_tools=("add",))
    model = StepModel(asks_for(call("mcp__one__add", {"a": 1, "b": 1})), answer())
    async with checked_host(tmp_path, model, mcp=settings(one=server)) as host, host.client() as client:
        await client.start(approval_policy="all")
        await run_to_end(client)
        (refused,) = client.bodies(ToolResult)
        assert "unknown tool 'mcp__one__add'" in refused.text and "mcp__one__echo" in refused.text


async def test_without_servers_nothing_changes(tmp_path: Path) -> None:
    model = StepModel(answer())
    async with checked_host(tmp_path, model, mcp=McpSettings()) as host, host.client() as client:
        await client.start()
        await run_to_end(client)
        assert client.bodies(WarningRaised) == [] and client.bodies(ApprovalReceived) == []


@pytest.mark.slow
async def test_a_recording_of_calls_and_of_a_broken_server_is_replayed(tmp_path: Path) -> None:
    broken = replace(plain_server(), command="nowhere")
    model = StepModel(asks_for(call("mcp__one__slow", {"seconds": 0.1})), answer())
    both = settings(broken=broken, one=plain_server())
    async with checked_host(tmp_path, model, mcp=both) as host, host.client() as client:
        await client.start(approval_policy="all")
        await run_to_end(client)
        assert client.bodies(ToolOutput) and client.bodies(WarningRaised)
        await assert_same(await recorded(host.runtime.log, client.session_id))
