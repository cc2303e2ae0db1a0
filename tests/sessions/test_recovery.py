"""A process dies in every state of a run; another one opens the session and continues from the log."""

import asyncio
from pathlib import Path
from typing import Literal

import pytest

from buddy.approvals.digest import nonce_of
from buddy.config.settings import AgentSettings
from buddy.daemon.runtime import unix_ms
from buddy.errors import ProtocolError
from buddy.log.memory import MemoryLog
from buddy.models.contract import AssistantItem, TextDelta, UserItem
from buddy.protocol.events import (
    AcceptanceResult,
    ApprovalReceived,
    ApprovalRequired,
    AssistantRestart,
    AssistantToken,
    Recovery,
    RunComplete,
    ToolCall,
    ToolClaimed,
    ToolOutput,
    ToolResult,
)
from buddy.protocol.requests import (
    SubmitApproval,
)
from buddy.protocol.shapes import Criterion
from buddy.targets import orphans
from tests.harness.models import StepModel, answer, asks_for, call, shell
from tests.harness.runtime import checked_host, crash
from tests.sessions.recovering import Logs, cut_after, recovered_client


async def test_a_reply_that_was_being_streamed_starts_again(tmp_path: Path, logs: Logs) -> None:
    half = StepModel([TextDelta("half an ans"), asyncio.Event()])
    async with checked_host(tmp_path, half, log=logs()) as host, host.client() as client:
        session_id = await client.start()
        await client.send("go")
        await client.wait_for(AssistantToken)
        await crash(host, session_id)
        whole = StepModel(answer("a whole answer"), answer("next"))
        async with recovered_client(host, session_id, whole, logs()) as after:
            assert (await after.wait_for(RunComplete)).summary == "a whole answer"
            kinds = [kind for kind in after.types() if kind in ("assistant_token", "assistant_restart", "recovery")]
            assert kinds[:3] == ["assistant_token", "recovery", "assistant_restart"]
            assert [body.action for body in after.bodies(Recovery)] == ["restarted"]
            assert [body.reason for body in after.bodies(AssistantRestart)] == ["interrupted"]
            await after.send("and?")
            await after.wait_for(RunComplete)
            assert whole.received == [
                [UserItem("go")],
                [UserItem("go"), AssistantItem("a whole answer"), UserItem("and?")],
            ]


async def test_a_call_that_was_only_requested_is_made(tmp_path: Path) -> None:
    log = MemoryLog(lambda: 0)
    model = StepModel(asks_for(shell("echo x >> ledger")), answer())
    async with checked_host(tmp_path, model, log=log) as host, host.client() as client:
        await client.start(approval_policy="all")
        await client.send("go")
        await client.wait_for(RunComplete)
        copy = await cut_after(log, client.session_id, "assistant_message")
        async with recovered_client(host, copy, StepModel(answer("made")), log) as after:
            assert (await after.wait_for(RunComplete)).summary == "made"
            assert len(after.bodies(ToolCall)) == 1
            assert (tmp_path / "ledger").read_text() == "x\nx\n"


@pytest.mark.parametrize("decision", ["approve", "deny"])
async def test_what_waits_for_a_decision_can_still_be_decided(
    tmp_path: Path, logs: Logs, decision: Literal["approve", "deny"]
) -> None:
    async with (
        checked_host(tmp_path, StepModel(asks_for(shell("touch made"))), log=logs()) as host,
        host.client() as client,
    ):
        session_id = await client.start()
        run_id = await client.send("go")
        asked = await client.wait_for(ApprovalRequired)
        await crash(host, session_id)
        async with recovered_client(host, session_id, StepModel(answer()), logs()) as after:
            await after.wait_for(Recovery)
            await after.api.approve(SubmitApproval(session_id, run_id, asked.approval_id, decision))
            assert (await after.wait_for(RunComplete)).outcome == "success"
            assert [body.approval_id for body in after.bodies(ApprovalRequired)] == [asked.approval_id]
            assert len(after.bodies(ToolCall)) == 1
            assert (tmp_path / "made").exists() is (decision == "approve")


async def test_what_waited_too_long_has_expired(tmp_path: Path, logs: Logs) -> None:
    async with (
        checked_host(
            tmp_path,
            StepModel(asks_for(shell("touch made"))),
            log=logs(),
            agent=AgentSettings(model="test", approval_timeout_seconds=300),
        ) as host,
        host.client() as client,
    ):
        session_id = await client.start()
        run_id = await client.send("go")
        asked = await client.wait_for(ApprovalRequired)
        await crash(host, session_id)
        told = StepModel(answer())
        async with recovered_client(host, session_id, told, logs(), lambda: unix_ms() + 300_000) as after:
            assert (await after.wait_for(RunComplete)).outcome == "denied"
            assert "approval_expired" in after.types()
            assert not (tmp_path / "made").exists()
            with pytest.raises(ProtocolError) as refusal:
                await after.api.approve(SubmitApproval(session_id, run_id, asked.approval_id, "approve"))
            assert refusal.value.code == "APPROVAL_EXPIRED"


async def test_a_pending_call_is_asked_about_again_if_it_would_do_something_else_now(
    tmp_path: Path, logs: Logs
) -> None:
    (tmp_path / "a.txt").write_text("one")
    write = call("write_file", {"path": "a.txt", "content": "two"})
    async with checked_host(tmp_path, StepModel(asks_for(write)), log=logs()) as host, host.client() as client:
        session_id = await client.start()
        run_id = await client.send("go")
        asked = await client.wait_for(ApprovalRequired)
        await crash(host, session_id)
        (tmp_path / "a.txt").write_text("changed meanwhile")
        async with recovered_client(host, session_id, StepModel(answer()), logs()) as after:
            again = await after.wait_for(ApprovalRequired, lambda body: body.approval_id != asked.approval_id)
            assert after.types()[-2:] == ["approval_expired", "approval_required"]
            with pytest.raises(ProtocolError) as refusal:
                await after.api.approve(SubmitApproval(session_id, run_id, asked.approval_id, "approve"))
            assert refusal.value.code == "APPROVAL_EXPIRED"
            await after.api.approve(SubmitApproval(session_id, run_id, again.approval_id, "approve"))
            await after.wait_for(RunComplete)
            assert (tmp_path / "a.txt").read_text() == "two"


async def test_what_was_approved_but_not_started_is_started_once(tmp_path: Path) -> None:
    log = MemoryLog(lambda: 0)
    model = StepModel(asks_for(shell("echo x >> ledger")), answer())
    async with checked_host(tmp_path, model, log=log) as host, host.client() as client:
        await client.start()
        run_id = await client.send("go")
        asked = await client.wait_for(ApprovalRequired)
        await client.api.approve(SubmitApproval(client.session_id, run_id, asked.approval_id, "approve"))
        await client.wait_for(RunComplete)
        copy = await cut_after(log, client.session_id, "approval_received")
        async with recovered_client(host, copy, StepModel(answer()), log) as after:
            assert (await after.wait_for(RunComplete)).outcome == "success"
            assert len(after.bodies(ApprovalRequired)) == len(after.bodies(ApprovalReceived)) == 1
            assert (tmp_path / "ledger").read_text() == "x\nx\n"


async def test_a_call_that_was_started_is_not_started_again(tmp_path: Path, logs: Logs) -> None:
    command = shell("echo started; sleep 60; touch never")
    async with checked_host(tmp_path, StepModel(asks_for(command)), log=logs()) as host, host.client() as client:
        session_id = await client.start(approval_policy="all")
        await client.send("go")
        await client.wait_for(ToolOutput)
        await crash(host, session_id)
        nonce = nonce_of(session_id, command.call_id)
        assert orphans.find(nonce) != []
        told = StepModel(answer("I looked"))
        async with recovered_client(host, session_id, told, logs()) as after:
            assert (await after.wait_for(RunComplete)).summary == "I looked"
            result = after.bodies(ToolResult)[0]
            assert result.structured_error is not None
            assert result.structured_error.type == "UNKNOWN_OUTCOME"
            assert "outcome is unknown" in told.tool_results()[0]
            assert len(after.bodies(ToolClaimed)) == 1
            assert [body.action for body in after.bodies(Recovery)] == ["unknown_outcome"]
            assert orphans.find(nonce) == []
            assert not (tmp_path / "never").exists()


async def test_a_read_only_call_is_made_again(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("first")
    log = MemoryLog(lambda: 0)
    model = StepModel(asks_for(call("read_file", {"path": "a.txt"})), answer())
    async with checked_host(tmp_path, model, log=log) as host, host.client() as client:
        await client.start()
        await client.send("go")
        await client.wait_for(RunComplete)
        copy = await cut_after(log, client.session_id, "tool_call")
        (tmp_path / "a.txt").write_text("second")
        told = StepModel(answer())
        async with recovered_client(host, copy, told, log) as after:
            await after.wait_for(RunComplete)
            assert told.tool_results() == ["second"]
            assert len(after.bodies(ToolCall)) == 1


async def test_a_run_between_two_checks_does_the_second(tmp_path: Path) -> None:
    log = MemoryLog(lambda: 0)
    checks = [Criterion("one", "echo x >> one"), Criterion("two", "echo x >> two")]
    async with checked_host(tmp_path, StepModel(answer()), log=log) as host, host.client() as client:
        await client.start()
        await client.send("go", accept=checks)
        await client.wait_for(RunComplete)
        copy = await cut_after(log, client.session_id, "acceptance_result")
        async with recovered_client(host, copy, StepModel(), log) as after:
            done = await after.wait_for(RunComplete)
            assert (done.outcome, done.acceptance and done.acceptance.passed) == ("success", 2)
        assert [(tmp_path / name).read_text() for name in ("one", "two")] == ["x\n", "x\nx\n"]


async def test_the_check_that_was_running_is_run_again(tmp_path: Path, logs: Logs) -> None:
    checks = [Criterion("one", "echo x >> one"), Criterion("two", "echo x >> two; test -e go || sleep 60")]
    async with checked_host(tmp_path, StepModel(answer()), log=logs()) as host, host.client() as client:
        session_id = await client.start()
        await client.send("go", accept=checks)
        await client.wait_for(AcceptanceResult)
        await crash(host, session_id)
        (tmp_path / "go").touch()
        async with recovered_client(host, session_id, StepModel(), logs()) as after:
            done = await after.wait_for(RunComplete)
            assert (done.outcome, done.acceptance and done.acceptance.passed) == ("success", 2)
            assert (tmp_path / "one").read_text() == "x\n"


async def test_a_run_that_was_being_cancelled_is_cancelled(tmp_path: Path) -> None:
    log = MemoryLog(lambda: 0)
    model = StepModel([asyncio.Event()])
    async with checked_host(tmp_path, model, log=log) as host, host.client() as client:
        await client.start()
        run_id = await client.send("go")
        await model.waiting.wait()
        await client.api.cancel(client.session_id, run_id, "enough")
        await client.wait_for(RunComplete)
        copy = await cut_after(log, client.session_id, "run_cancelling")
        async with recovered_client(host, copy, StepModel(), log) as after:
            done = await after.wait_for(RunComplete)
            assert (done.outcome, done.summary) == ("cancelled", "cancelled: enough")


async def test_a_run_that_was_answered_is_completed_without_asking_the_model_again(tmp_path: Path) -> None:
    log = MemoryLog(lambda: 0)
    async with checked_host(tmp_path, StepModel(answer("the answer")), log=log) as host, host.client() as client:
        await client.start()
        await client.send("go")
        await client.wait_for(RunComplete)
        copy = await cut_after(log, client.session_id, "usage")
        silent = StepModel()
        async with recovered_client(host, copy, silent, log) as after:
            assert (await after.wait_for(RunComplete)).summary == "the answer"
            assert silent.received == []
