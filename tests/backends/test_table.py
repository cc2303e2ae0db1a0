"""One contract for all backends: streaming, approvals, budgets, cancellation and resuming work the same in each."""

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from backends.casts import CASTS, Cast, scene
from buddy.backends.external.adapter import agent_nonce
from buddy.daemon.runtime import unix_ms
from buddy.errors import ProtocolError
from buddy.log.memory import MemoryLog
from buddy.protocol.events import (
    ApprovalRequired,
    AssistantMessage,
    AssistantToken,
    Error,
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
from harness import Guest
from sessions.stage import crash, read_all

pytestmark = pytest.mark.parametrize("cast", CASTS, ids=lambda cast: cast.name)


async def ask(
    guest: Guest, text: str, options: RunOptions | None = None, accept: Sequence[Criterion] = ()
) -> RunComplete:
    await guest.send(text, options=options, accept=accept)
    return await guest.until(RunComplete)


async def decide(guest: Guest, run_id: str, verdict: str, comment: str | None = None) -> ApprovalRequired:
    asked = await guest.until(ApprovalRequired)
    decision = "approve" if verdict == "approve" else "deny"
    await guest.client.approve(SubmitApproval(guest.session_id, run_id, asked.approval_id, decision, comment))
    return asked


def _wait_for(path: Path) -> None:
    while not path.exists():
        time.sleep(0.01)


async def test_an_answer_is_streamed_and_then_complete(cast: Cast, tmp_path: Path) -> None:
    async with scene(cast, tmp_path) as home, home.client() as guest:
        await guest.start()
        ended = await ask(guest, "say hello world")
        assert ended.outcome == "success"
        assert "".join(body.text for body in guest.bodies(AssistantToken)).strip() == "hello world"
        assert guest.bodies(AssistantMessage)[-1].text.strip() == "hello world"
        assert guest.bodies(Usage)[-1].input_tokens == 20


async def test_a_read_only_call_has_one_result_and_needs_no_approval(cast: Cast, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("contents of notes.txt")
    async with scene(cast, tmp_path) as home, home.client() as guest:
        await guest.start()
        assert (await ask(guest, "look notes.txt")).outcome == "success"
        assert [body.call_id for body in guest.bodies(ToolCall)] == [body.call_id for body in guest.bodies(ToolResult)]
        assert "contents of notes.txt" in guest.bodies(ToolResult)[0].text
        assert not guest.bodies(ApprovalRequired)


async def test_an_approved_call_is_claimed_and_runs_once(cast: Cast, tmp_path: Path) -> None:
    async with scene(cast, tmp_path) as home, home.client() as guest:
        await guest.start()
        run_id = await guest.send("run echo once >> ledger.txt")
        asked = await decide(guest, run_id, "approve")
        assert asked.kind == "exec"
        assert asked.details["command"] == "echo once >> ledger.txt"
        assert {asked.details[name] for name in ("cwd", "target", "sandbox")} == {str(tmp_path), "local", "host"}
        assert (await guest.until(RunComplete)).outcome == "success"
        order = [type(body) for event in guest.received if isinstance(body := event.body(), ToolClaimed | ToolResult)]
        assert order == [ToolClaimed, ToolResult]
        assert (tmp_path / "ledger.txt").read_text() == "once\n"


async def test_a_denied_call_does_not_run_and_the_run_continues(cast: Cast, tmp_path: Path) -> None:
    async with scene(cast, tmp_path) as home, home.client() as guest:
        await guest.start()
        run_id = await guest.send("run touch forbidden")
        await decide(guest, run_id, "deny", "not now")
        assert (await guest.until(RunComplete)).outcome == "success"
        assert guest.bodies(ToolResult)[0].is_error
        assert not guest.bodies(ToolClaimed)
        assert not (tmp_path / "forbidden").exists()


async def test_a_headless_run_without_permissions_ends_denied(cast: Cast, tmp_path: Path) -> None:
    async with scene(cast, tmp_path) as home, home.client("headless") as guest:
        await guest.start("headless")
        ended = await ask(guest, "run touch forbidden")
        assert ended.outcome == "denied"
        assert ended.headless is not None
        assert ended.headless.exit_code_hint == 3
        assert not (tmp_path / "forbidden").exists()


async def test_a_permissive_policy_asks_nobody(cast: Cast, tmp_path: Path) -> None:
    async with scene(cast, tmp_path) as home, home.client("headless") as guest:
        await guest.start("headless")
        ended = await ask(guest, "run touch made", RunOptions(approval_policy="all"))
        assert ended.outcome == "success"
        assert not guest.bodies(ApprovalRequired)
        assert (tmp_path / "made").exists()


async def test_a_planning_session_changes_nothing_even_if_approved(cast: Cast, tmp_path: Path) -> None:
    async with scene(cast, tmp_path) as home, home.client("headless") as guest:
        await guest.start("headless", plan=True)
        await ask(guest, "run touch made", RunOptions(approval_policy="all"))
        assert not guest.bodies(ApprovalRequired)
        assert not (tmp_path / "made").exists()


async def test_a_cancelled_run_ends_and_the_next_one_works(cast: Cast, tmp_path: Path) -> None:
    async with scene(cast, tmp_path) as home, home.client() as guest:
        await guest.start()
        run_id = await guest.send("wait")
        await guest.until(AssistantToken)
        await guest.client.cancel(guest.session_id, run_id)
        assert (await guest.until(RunComplete)).outcome == "cancelled"
        assert (await ask(guest, "say again")).outcome == "success"


async def test_a_session_is_resumed_after_a_restart(cast: Cast, tmp_path: Path) -> None:
    log = MemoryLog(unix_ms)
    async with scene(cast, tmp_path, log) as home, home.client() as guest:
        session_id = await guest.start()
        await ask(guest, "say first")
        await crash(home, session_id)
    async with scene(cast, tmp_path, log) as home, home.client() as guest:
        await guest.client.attach(session_id)
        guest.session_id = session_id
        await guest.until(RunComplete)
        ended = await ask(guest, "recall")
        assert ended.summary.strip() == "1 before"


async def test_a_call_running_during_a_crash_has_an_unknown_outcome_and_is_not_repeated(
    cast: Cast, tmp_path: Path
) -> None:
    log, ledger = MemoryLog(unix_ms), tmp_path / "ledger.txt"
    async with scene(cast, tmp_path, log) as home, home.client() as guest:
        session_id = await guest.start()
        run_id = await guest.send("run echo once >> ledger.txt; exec sleep 1000")
        await decide(guest, run_id, "approve")
        await asyncio.to_thread(_wait_for, ledger)
        await crash(home, session_id)
        async with scene(cast, tmp_path, log) as after, after.client() as later:
            await after.runtime.sessions.open(session_id)
            await later.client.attach(session_id)
            ended = await later.until(RunComplete)
            assert ended.outcome == "success", ended
            results = later.bodies(ToolResult)
            assert [body.structured_error and body.structured_error.type for body in results] == ["UNKNOWN_OUTCOME"]
            assert "unknown_outcome" in [body.action for body in later.bodies(Recovery)]
            assert later.bodies(AssistantMessage)[-1].text == "went on"
    assert ledger.read_text() == "once\n"


async def test_concurrent_sessions_do_not_see_each_others_events(cast: Cast, tmp_path: Path) -> None:
    async def talk(home_client: Guest, word: str) -> str:
        await home_client.start()
        return (await ask(home_client, f"say {word} {word}")).summary.strip()

    async with scene(cast, tmp_path) as home, home.client() as one, home.client() as two:
        assert await asyncio.gather(talk(one, "left"), talk(two, "right")) == ["left left", "right right"]


async def test_an_agent_that_dies_fails_the_run_but_not_the_session(cast: Cast, tmp_path: Path) -> None:
    async with scene(cast, tmp_path) as home, home.client() as guest:
        await guest.start()
        ended = await ask(guest, "die")
        assert ended.outcome == "failed"
        assert "met its end" in ended.summary
        assert guest.bodies(Error)
        assert (await ask(guest, "say again")).outcome == "success"


async def test_a_token_budget_ends_the_run(cast: Cast, tmp_path: Path) -> None:
    async with scene(cast, tmp_path) as home, home.client("headless") as guest:
        await guest.start("headless")
        ended = await ask(guest, "say much", RunOptions(budget=BudgetLimits(max_tokens=5)))
        assert ended.reason == "budget_exceeded"
        assert ended.headless is not None
        assert ended.headless.exit_code_hint == 5


async def test_a_time_budget_ends_a_waiting_agent(cast: Cast, tmp_path: Path) -> None:
    async with scene(cast, tmp_path) as home, home.client("headless") as guest:
        await guest.start("headless")
        ended = await ask(guest, "wait", RunOptions(budget=BudgetLimits(max_seconds=3)))
        assert ended.reason == "budget_exceeded"


async def test_rejected_work_is_returned_and_finally_fails(cast: Cast, tmp_path: Path) -> None:
    async with scene(cast, tmp_path) as home, home.client("headless") as guest:
        await guest.start("headless")
        ended = await ask(guest, "say done", accept=[Criterion("exists", "test -f never")])
        assert ended.reason == "acceptance_failed"
        assert ended.headless is not None
        assert ended.headless.exit_code_hint == 4


async def test_no_registered_secret_is_recorded(cast: Cast, tmp_path: Path) -> None:
    secret = "sk-not-for-anybodys-eyes-0123456789"
    async with scene(cast, tmp_path, more={"OPENAI_API_KEY": secret}) as home, home.client() as guest:
        session_id = await guest.start()
        await ask(guest, f"say {secret}")
        events = await read_all(home.runtime.log, session_id)
        assert secret.encode() not in b"".join(event.line() for event in events)


async def test_nothing_is_left_running_after_the_end(cast: Cast, tmp_path: Path) -> None:
    async with scene(cast, tmp_path) as home, home.client() as guest:
        session_id = await guest.start()
        await guest.send("wait")
        await guest.until(AssistantToken)
    assert orphans.find(agent_nonce(session_id, 1)) == []


async def test_an_external_agent_cannot_be_confined(cast: Cast, tmp_path: Path) -> None:
    async with scene(cast, tmp_path) as home, home.client() as guest:
        if cast.runtime is None:
            await guest.start(sandbox="host")  # ours can be confined, which is tested elsewhere
            return
        with pytest.raises(ProtocolError, match="cannot be confined") as refused:
            await guest.start(sandbox="confined")
        assert refused.value.code == "SANDBOX_UNAVAILABLE"
