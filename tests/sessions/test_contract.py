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
from harness import calls, house, says


async def test_hello_tells_version_and_capabilities(tmp_path: Path) -> None:
    async with house(tmp_path) as home, home.client() as guest:
        runtime = guest.client.runtime
        assert runtime is not None
        assert runtime.protocol_version == VERSION
        assert {"stream_tokens", "approvals", "replay_attach", "headless"} <= set(runtime.capabilities)


async def test_a_started_session_is_announced(tmp_path: Path) -> None:
    async with house(tmp_path) as home, home.client() as guest:
        session_id = await guest.start()
        started = await guest.until(SessionStarted)
        assert (started.session_id, started.state, started.mode) == (session_id, "idle", "interactive")
        assert guest.token.startswith("att_")
        assert guest.received[0].seq == 1


async def test_a_message_streams_tokens_and_completes(tmp_path: Path) -> None:
    async with house(tmp_path, says("one two three")) as home, home.client() as guest:
        await guest.start()
        run_id = await guest.send("count")
        done = await guest.until(RunComplete)
        assert (done.run_id, done.outcome, done.summary) == (run_id, "success", "one two three")
        assert "".join(token.text for token in guest.bodies(AssistantToken)) == "one two three"
        assert [event.seq for event in guest.received] == list(range(1, len(guest.received) + 1))
        kinds = [kind for kind in guest.types() if kind != "assistant_token"]
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
    async with house(tmp_path, *script) as home, home.client() as guest:
        await guest.start()
        await guest.send("read it")
        await guest.until(RunComplete)
        call, result = guest.bodies(ToolCall)[0], guest.bodies(ToolResult)[0]
        assert call.tool_name == result.tool_name == "read_file"
        assert call.call_id == result.call_id
        assert (result.is_error, result.structured_error) == (False, None)
        assert "hello" in result.text


async def test_an_approval_holds_the_call_until_it_is_given(tmp_path: Path) -> None:
    script = (calls(("run_shell", {"command": "echo hi > made.txt"})), says("made"))
    async with house(tmp_path, *script) as home, home.client() as guest:
        await guest.start()
        run_id = await guest.send("make it")
        asked = await guest.until(ApprovalRequired)
        assert asked.details["command"] == "echo hi > made.txt"
        assert not (tmp_path / "made.txt").exists()
        await guest.client.approve(SubmitApproval(guest.session_id, run_id, asked.approval_id, "approve"))
        assert (await guest.until(RunComplete)).outcome == "success"
        assert (tmp_path / "made.txt").read_text() == "hi\n"
        received = guest.bodies(ApprovalReceived)[0]
        assert (received.decision, received.by, received.digest) == ("approve", "cli", asked.digest)
        assert guest.types().index("approval_received") < guest.types().index("tool_claimed")


async def test_a_cancelled_run_completes_as_cancelled(tmp_path: Path) -> None:
    script = (calls(("run_shell", {"command": "sleep 60"})), says("never"))
    async with house(tmp_path, *script) as home, home.client() as guest:
        await guest.start(approval_policy="all")
        run_id = await guest.send("wait")
        await guest.until(ToolCall)
        await guest.client.cancel(guest.session_id, run_id)
        assert (await guest.until(RunComplete)).outcome == "cancelled"
        assert len(guest.bodies(ToolResult)) == 1
        with pytest.raises(ProtocolError, match="not active") as refused:
            await guest.client.cancel(guest.session_id, run_id)
        assert refused.value.code == "NO_ACTIVE_RUN"


async def test_an_attach_replays_what_was_missed(tmp_path: Path) -> None:
    async with house(tmp_path, says("one two three")) as home:
        async with home.client() as guest:
            await guest.start()
            await guest.send("count")
            await guest.until(RunComplete)
        async with home.client("console") as late:
            late.session_id = guest.session_id
            seen = guest.received[2].seq
            reply = await late.client.attach(guest.session_id, seen)
            assert (reply.replay.from_seq, reply.replay.gap) == (seen + 1, False)
            await late.until(RunComplete)
            assert [event.line() for event in late.received] == [event.line() for event in guest.received[seen:]]
            assert late.bodies(RunStarted) == []
