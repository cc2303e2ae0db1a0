"""One contract for all backends: streaming, approvals, budgets, cancellation and resuming work the same in each."""

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import pytest

from buddy.backends.external.adapter import agent_nonce
from buddy.daemon.runtime import unix_ms
from buddy.errors import ProtocolError
from buddy.log.memory import MemoryLog
from buddy.protocol.events import (
    ApprovalExpired,
    ApprovalReceived,
    ApprovalRequired,
    AssistantMessage,
    AssistantToken,
    Error,
    ModelRequest,
    Recovery,
    RunComplete,
    ToolCall,
    ToolClaimed,
    ToolResult,
    Usage,
)
from buddy.protocol.requests import SubmitApproval
from buddy.protocol.shapes import BudgetLimits, Criterion, RunOptions
from buddy.targets import orphans
from tests.backends.agents import AGENTS, Agent, agent_host
from tests.harness.logs import read_all
from tests.harness.runtime import RuntimeClient, crash

pytestmark = pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent.name)


async def ask(
    client: RuntimeClient, text: str, options: RunOptions | None = None, accept: Sequence[Criterion] = ()
) -> RunComplete:
    await client.send(text, options=options, accept=accept)
    return await client.wait_for(RunComplete)


async def decide(client: RuntimeClient, run_id: str, verdict: str, comment: str | None = None) -> ApprovalRequired:
    asked = await client.wait_for(ApprovalRequired)
    decision = "approve" if verdict == "approve" else "deny"
    await client.api.approve(SubmitApproval(client.session_id, run_id, asked.approval_id, decision, comment))
    return asked


def _wait_for(path: Path) -> None:
    while not path.exists():
        time.sleep(0.01)


async def test_an_answer_is_streamed_and_then_complete(agent: Agent, tmp_path: Path) -> None:
    async with agent_host(agent, tmp_path) as host, host.client() as client:
        await client.start()
        ended = await ask(client, "say hello world")
        assert ended.outcome == "success"
        assert "".join(body.text for body in client.bodies(AssistantToken)).strip() == "hello world"
        assert client.bodies(AssistantMessage)[-1].text.strip() == "hello world"
        assert client.bodies(Usage)[-1].input_tokens == 20


async def test_a_read_only_call_has_one_result_and_needs_no_approval(agent: Agent, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("contents of notes.txt")
    async with agent_host(agent, tmp_path) as host, host.client() as client:
        await client.start()
        assert (await ask(client, "look notes.txt")).outcome == "success"
        assert [body.call_id for body in client.bodies(ToolCall)] == [
            body.call_id for body in client.bodies(ToolResult)
        ]
        assert "contents of notes.txt" in client.bodies(ToolResult)[0].text
        assert not client.bodies(ApprovalRequired)


async def test_an_approved_call_is_claimed_and_runs_once(agent: Agent, tmp_path: Path) -> None:
    async with agent_host(agent, tmp_path) as host, host.client() as client:
        await client.start()
        run_id = await client.send("run echo once >> ledger.txt")
        asked = await decide(client, run_id, "approve")
        assert asked.kind == "exec"
        assert asked.details["command"] == "echo once >> ledger.txt"
        assert {asked.details[name] for name in ("cwd", "target", "sandbox")} == {str(tmp_path), "local", "host"}
        assert (await client.wait_for(RunComplete)).outcome == "success"
        order = [type(body) for event in client.received if isinstance(body := event.body(), ToolClaimed | ToolResult)]
        assert order == [ToolClaimed, ToolResult]
        assert (tmp_path / "ledger.txt").read_text() == "once\n"


async def test_a_denied_call_does_not_run_and_the_run_continues(agent: Agent, tmp_path: Path) -> None:
    async with agent_host(agent, tmp_path) as host, host.client() as client:
        await client.start()
        run_id = await client.send("run touch forbidden")
        await decide(client, run_id, "deny", "not now")
        assert (await client.wait_for(RunComplete)).outcome == "success"
        assert client.bodies(ToolResult)[0].is_error
        assert not client.bodies(ToolClaimed)
        assert not (tmp_path / "forbidden").exists()


async def test_a_headless_run_without_permissions_ends_denied(agent: Agent, tmp_path: Path) -> None:
    async with agent_host(agent, tmp_path) as host, host.client("headless") as client:
        await client.start("headless")
        ended = await ask(client, "run touch forbidden")
        assert ended.outcome == "denied"
        assert ended.headless is not None
        assert ended.headless.exit_code_hint == 3
        assert not (tmp_path / "forbidden").exists()


async def test_a_permissive_policy_does_not_ask(agent: Agent, tmp_path: Path) -> None:
    async with agent_host(agent, tmp_path) as host, host.client("headless") as client:
        await client.start("headless")
        ended = await ask(client, "run touch made", RunOptions(approval_policy="all"))
        assert ended.outcome == "success"
        assert not client.bodies(ApprovalRequired)
        assert (tmp_path / "made").exists()


async def test_a_planning_session_changes_nothing_even_if_approved(agent: Agent, tmp_path: Path) -> None:
    async with agent_host(agent, tmp_path) as host, host.client("headless") as client:
        await client.start("headless", plan=True)
        await ask(client, "run touch made", RunOptions(approval_policy="all"))
        assert not client.bodies(ApprovalRequired)
        assert not (tmp_path / "made").exists()
        for denied in client.bodies(ApprovalReceived):
            assert (denied.decision, denied.by) == ("deny", "rule:plan")
        if agent.name != "native":  # whose model is not even offered the tool
            assert client.bodies(ApprovalReceived)
            assert "plan mode" in client.bodies(ToolResult)[0].text


async def test_a_cancelled_run_ends_and_the_next_one_works(agent: Agent, tmp_path: Path) -> None:
    async with agent_host(agent, tmp_path) as host, host.client() as client:
        await client.start()
        run_id = await client.send("wait")
        await client.wait_for(AssistantToken)
        await client.api.cancel(client.session_id, run_id)
        assert (await client.wait_for(RunComplete)).outcome == "cancelled"
        assert (await ask(client, "say again")).outcome == "success"


async def test_a_session_is_resumed_after_a_restart(agent: Agent, tmp_path: Path) -> None:
    log = MemoryLog(unix_ms)
    async with agent_host(agent, tmp_path, log) as host, host.client() as client:
        session_id = await client.start()
        await ask(client, "say first")
        await crash(host, session_id)
    async with agent_host(agent, tmp_path, log) as host, host.client() as client:
        await client.api.attach(session_id)
        client.session_id = session_id
        await client.wait_for(RunComplete)
        ended = await ask(client, "recall")
        assert ended.summary.strip() == "1 before"


async def test_a_call_running_during_a_crash_has_an_unknown_outcome_and_is_not_repeated(
    agent: Agent, tmp_path: Path
) -> None:
    log, ledger = MemoryLog(unix_ms), tmp_path / "ledger.txt"
    async with agent_host(agent, tmp_path, log) as host, host.client() as client:
        session_id = await client.start()
        run_id = await client.send("run echo once >> ledger.txt; exec sleep 1000")
        await decide(client, run_id, "approve")
        await asyncio.to_thread(_wait_for, ledger)
        await crash(host, session_id)
        async with agent_host(agent, tmp_path, log) as after, after.client() as later:
            await after.runtime.sessions.open(session_id)
            await later.api.attach(session_id)
            ended = await later.wait_for(RunComplete)
            assert ended.outcome == "success", ended
            results = later.bodies(ToolResult)
            assert [body.structured_error and body.structured_error.type for body in results] == ["UNKNOWN_OUTCOME"]
            assert "unknown_outcome" in [body.action for body in later.bodies(Recovery)]
            assert later.bodies(AssistantMessage)[-1].text == "went on"
    assert ledger.read_text() == "once\n"


@pytest.mark.parametrize("verdict", ["approve", "deny"])
@pytest.mark.parametrize("when", ["after it is asked again", "before"])
async def test_a_question_that_was_open_during_a_crash_keeps_its_id_and_its_answer(
    agent: Agent, tmp_path: Path, verdict: Literal["approve", "deny"], when: str
) -> None:
    log = MemoryLog(unix_ms)
    async with agent_host(agent, tmp_path, log) as host, host.client() as client:
        session_id = await client.start()
        run_id = await client.send("run echo once >> ledger.txt")
        asked = await client.wait_for(ApprovalRequired)
        await crash(host, session_id)
        async with agent_host(agent, tmp_path, log) as after, after.client() as later:
            await later.api.attach(session_id, client.received[-1].seq)
            later.session_id = session_id
            if when != "before":
                await later.wait_for(Recovery if agent.name == "native" else ModelRequest)
            await later.api.approve(SubmitApproval(session_id, run_id, asked.approval_id, verdict))
            assert (await later.wait_for(RunComplete)).outcome == "success"
            assert [(body.action, body.call_id) for body in later.bodies(Recovery)] == [("continued", asked.call_id)]
            assert not [body for body in later.bodies(ApprovalRequired) if body.approval_id != asked.approval_id]
            assert not later.bodies(ApprovalExpired)
            assert [body.approval_id for body in later.bodies(ApprovalReceived)] == [asked.approval_id]
            assert [(body.call_id, body.is_error) for body in later.bodies(ToolResult)] == [
                (asked.call_id, verdict == "deny")
            ]
            calls = [event for event in await read_all(log, session_id) if event.type == "tool_call"]
            assert len(calls) == 1
    assert (tmp_path / "ledger.txt").exists() == (verdict == "approve")


async def test_concurrent_sessions_do_not_see_each_others_events(agent: Agent, tmp_path: Path) -> None:
    async def talk(home_client: RuntimeClient, word: str) -> str:
        await home_client.start()
        return (await ask(home_client, f"say {word} {word}")).summary.strip()

    async with agent_host(agent, tmp_path) as host, host.client() as one, host.client() as two:
        assert await asyncio.gather(talk(one, "left"), talk(two, "right")) == ["left left", "right right"]


async def test_an_agent_that_dies_fails_the_run_but_not_the_session(agent: Agent, tmp_path: Path) -> None:
    async with agent_host(agent, tmp_path) as host, host.client() as client:
        await client.start()
        ended = await ask(client, "die")
        assert ended.outcome == "failed"
        assert "met its end" in ended.summary
        assert client.bodies(Error)
        assert (await ask(client, "say again")).outcome == "success"


async def test_a_token_budget_ends_the_run(agent: Agent, tmp_path: Path) -> None:
    async with agent_host(agent, tmp_path) as host, host.client("headless") as client:
        await client.start("headless")
        ended = await ask(client, "say much", RunOptions(budget=BudgetLimits(max_tokens=5)))
        assert ended.reason == "budget_exceeded"
        assert ended.headless is not None
        assert ended.headless.exit_code_hint == 5


async def test_a_time_budget_ends_a_waiting_agent(agent: Agent, tmp_path: Path) -> None:
    async with agent_host(agent, tmp_path) as host, host.client("headless") as client:
        await client.start("headless")
        ended = await ask(client, "wait", RunOptions(budget=BudgetLimits(max_seconds=1)))
        assert ended.reason == "budget_exceeded"


async def test_rejected_work_is_returned_and_finally_fails(agent: Agent, tmp_path: Path) -> None:
    async with agent_host(agent, tmp_path) as host, host.client("headless") as client:
        await client.start("headless")
        ended = await ask(client, "say done", accept=[Criterion("exists", "test -f never")])
        assert ended.reason == "acceptance_failed"
        assert ended.headless is not None
        assert ended.headless.exit_code_hint == 4


async def test_no_registered_secret_is_recorded(agent: Agent, tmp_path: Path) -> None:
    secret = "sk-not-for-anybodys-eyes-0123456789"
    async with agent_host(agent, tmp_path, more={"OPENAI_API_KEY": secret}) as host, host.client() as client:
        session_id = await client.start()
        await ask(client, f"say {secret}")
        events = await read_all(host.runtime.log, session_id)
        assert secret.encode() not in b"".join(event.line() for event in events)


async def test_nothing_is_left_running_after_the_end(agent: Agent, tmp_path: Path) -> None:
    async with agent_host(agent, tmp_path) as host, host.client() as client:
        session_id = await client.start()
        await client.send("wait")
        await client.wait_for(AssistantToken)
    assert orphans.find(agent_nonce(session_id, 1)) == []


async def test_an_external_agent_cannot_be_confined(agent: Agent, tmp_path: Path) -> None:
    async with agent_host(agent, tmp_path) as host, host.client() as client:
        if agent.runtime is None:
            await client.start(sandbox="host")  # ours can be confined, which is tested elsewhere
            return
        with pytest.raises(ProtocolError, match="cannot be confined") as refused:
            await client.start(sandbox="confined")
        assert refused.value.code == "SANDBOX_UNAVAILABLE"
