"""The seven contract tests of the protocol, over the in-memory transport."""

from pathlib import Path

import pytest

from buddy.errors import ProtocolError
from buddy.protocol.codes import VERSION
from buddy.protocol.events import (
    ApprovalReceived,
    ApprovalRequired,
    AssistantToken,
    RunComplete,
    RunStarted,
    SessionStarted,
    ToolCall,
    ToolResult,
)
from buddy.protocol.requests import SubmitApproval
from tests.harness.models import calls, says
from tests.harness.runtime import scripted_host


async def test_hello_returns_version_and_capabilities(tmp_path: Path) -> None:
    async with scripted_host(tmp_path) as host, host.client() as client:
        runtime = client.api.runtime
        assert runtime is not None
        assert runtime.protocol_version == VERSION
        assert {"stream_tokens", "approvals", "replay_attach", "headless"} <= set(runtime.capabilities)


async def test_a_started_session_is_announced(tmp_path: Path) -> None:
    async with scripted_host(tmp_path) as host, host.client() as client:
        session_id = await client.start()
        started = await client.wait_for(SessionStarted)
        assert (started.session_id, started.state, started.mode) == (session_id, "idle", "interactive")
        assert client.token.startswith("att_")
        assert client.received[0].seq == 1


async def test_a_message_streams_tokens_and_completes(tmp_path: Path) -> None:
    async with scripted_host(tmp_path, says("one two three")) as host, host.client() as client:
        await client.start()
        run_id = await client.send("count")
        done = await client.wait_for(RunComplete)
        assert (done.run_id, done.outcome, done.summary) == (run_id, "success", "one two three")
        assert "".join(token.text for token in client.bodies(AssistantToken)) == "one two three"
        assert [event.seq for event in client.received] == list(range(1, len(client.received) + 1))
        kinds = [kind for kind in client.types() if kind != "assistant_token"]
        assert kinds == [
            "session_started",
            "user_message",
            "run_started",
            "model_request",
            "assistant_message",
            "assistant_done",
            "usage",
            "run_complete",
        ]


async def test_tool_calls_and_results_are_seen_in_pairs(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello")
    script = (calls(("read_file", {"path": "a.txt"})), says("it says hello"))
    async with scripted_host(tmp_path, *script) as host, host.client() as client:
        await client.start()
        await client.send("read it")
        await client.wait_for(RunComplete)
        call, result = client.bodies(ToolCall)[0], client.bodies(ToolResult)[0]
        assert call.tool_name == result.tool_name == "read_file"
        assert call.call_id == result.call_id
        assert (result.is_error, result.structured_error) == (False, None)
        assert "hello" in result.text


async def test_an_approval_holds_the_call_until_it_is_given(tmp_path: Path) -> None:
    script = (calls(("run_shell", {"command": "echo hi > made.txt"})), says("made"))
    async with scripted_host(tmp_path, *script) as host, host.client() as client:
        await client.start()
        run_id = await client.send("make it")
        asked = await client.wait_for(ApprovalRequired)
        assert asked.details["command"] == "echo hi > made.txt"
        assert not (tmp_path / "made.txt").exists()
        await client.api.approve(SubmitApproval(client.session_id, run_id, asked.approval_id, "approve"))
        assert (await client.wait_for(RunComplete)).outcome == "success"
        assert (tmp_path / "made.txt").read_text() == "hi\n"
        received = client.bodies(ApprovalReceived)[0]
        assert (received.decision, received.by, received.digest) == ("approve", "cli", asked.digest)
        assert client.types().index("approval_received") < client.types().index("tool_claimed")


async def test_a_cancelled_run_completes_as_cancelled(tmp_path: Path) -> None:
    script = (calls(("run_shell", {"command": "sleep 60"})), says("never"))
    async with scripted_host(tmp_path, *script) as host, host.client() as client:
        await client.start(approval_policy="all")
        run_id = await client.send("wait")
        await client.wait_for(ToolCall)
        await client.api.cancel(client.session_id, run_id)
        assert (await client.wait_for(RunComplete)).outcome == "cancelled"
        assert len(client.bodies(ToolResult)) == 1
        with pytest.raises(ProtocolError, match="not active") as refused:
            await client.api.cancel(client.session_id, run_id)
        assert refused.value.code == "NO_ACTIVE_RUN"


async def test_an_attach_replays_what_was_missed(tmp_path: Path) -> None:
    async with scripted_host(tmp_path, says("one two three")) as host:
        async with host.client() as client:
            await client.start()
            await client.send("count")
            await client.wait_for(RunComplete)
        async with host.client("console") as late:
            late.session_id = client.session_id
            seen = client.received[2].seq
            reply = await late.api.attach(client.session_id, seen)
            assert (reply.replay.from_seq, reply.replay.gap) == (seen + 1, False)
            await late.wait_for(RunComplete)
            assert [event.line() for event in late.received] == [event.line() for event in client.received[seen:]]
            assert late.bodies(RunStarted) == []
