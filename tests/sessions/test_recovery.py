"""A process dies in every state of a run; another one takes the session up and goes on from what the log says."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

import msgspec
import pytest

from buddy.approvals.digest import nonce_of
from buddy.config.settings import Profile
from buddy.daemon.runtime import unix_ms
from buddy.errors import ProtocolError
from buddy.log.contract import Batch, Log
from buddy.log.memory import MemoryLog
from buddy.log.owners import this_owner
from buddy.models.contract import AssistantItem, TextDelta, TokenUsage, UserItem
from buddy.protocol.envelopes import Event
from buddy.protocol.events import (
    AcceptanceResult,
    ApprovalPolicyChanged,
    ApprovalReceived,
    ApprovalRequired,
    AssistantRestart,
    AssistantToken,
    ModelRequest,
    Recovery,
    RunComplete,
    RunStarted,
    ToolCall,
    ToolClaimed,
    ToolOutput,
    ToolResult,
    Usage,
)
from buddy.protocol.requests import (
    SetApprovalPolicy,
    SetApprovalPolicyReply,
    SubmitApproval,
    SwitchModel,
    SwitchModelReply,
)
from buddy.protocol.shapes import BudgetLimits, Criterion, RunOptions
from buddy.targets import orphans
from checker import Recorded, check
from harness import Guest, House, house, says
from sessions.stage import Puppet, answer, asks_for, call, crash, read_all, shell, stage

Logs = Callable[[], Log]


@asynccontextmanager
async def taken_up(
    dead: House, session_id: str, puppet: Puppet, log: Log, clock: Callable[[], int] = unix_ms
) -> AsyncGenerator[Guest]:
    """A client of the process after the one that died; it receives everything from the start."""
    async with stage(dead.workspace, puppet, log=log, clock=clock) as home, home.client() as guest:
        await home.runtime.sessions.recover()
        guest.session_id = session_id
        await guest.client.attach(session_id)
        yield guest


async def cut_after(log: Log, session_id: str, first: str) -> str:
    """A copy of the session as it would be had the process died right after the first event of this type."""
    events = await read_all(log, session_id)
    end = next(index for index, event in enumerate(events) if event.type == first) + 1
    copy = f"{session_id}.cut"
    record = await log.get(session_id)
    assert record is not None
    lease = await log.create(msgspec.structs.replace(record, session_id=copy), this_owner())
    kept = [Event(copy, event.seq, event.ts, event.type, event.payload, event.run_id) for event in events[:end]]
    await log.append(Batch(copy, lease.epoch, 0, kept, state="running"))
    return copy


async def test_a_reply_that_was_being_streamed_starts_again(tmp_path: Path, logs: Logs) -> None:
    half = Puppet([TextDelta("half an ans"), asyncio.Event()])
    async with stage(tmp_path, half, log=logs()) as home, home.client() as guest:
        session_id = await guest.start()
        await guest.send("go")
        await guest.until(AssistantToken)
        await crash(home, session_id)
        whole = Puppet(answer("a whole answer"), answer("next"))
        async with taken_up(home, session_id, whole, logs()) as after:
            assert (await after.until(RunComplete)).summary == "a whole answer"
            kinds = [kind for kind in after.types() if kind in ("assistant_token", "assistant_restart", "recovery")]
            assert kinds[:3] == ["assistant_token", "recovery", "assistant_restart"]
            assert [body.action for body in after.bodies(Recovery)] == ["restarted"]
            assert [body.reason for body in after.bodies(AssistantRestart)] == ["interrupted"]
            await after.send("and?")
            await after.until(RunComplete)
            assert whole.heard == [
                [UserItem("go")],
                [UserItem("go"), AssistantItem("a whole answer"), UserItem("and?")],
            ]


async def test_a_call_that_was_only_requested_is_made(tmp_path: Path) -> None:
    log = MemoryLog(lambda: 0)
    puppet = Puppet(asks_for(shell("echo x >> ledger")), answer())
    async with stage(tmp_path, puppet, log=log) as home, home.client() as guest:
        await guest.start(approval_policy="all")
        await guest.send("go")
        await guest.until(RunComplete)
        copy = await cut_after(log, guest.session_id, "assistant_message")
        async with taken_up(home, copy, Puppet(answer("made")), log) as after:
            assert (await after.until(RunComplete)).summary == "made"
            assert len(after.bodies(ToolCall)) == 1
            assert (tmp_path / "ledger").read_text() == "x\nx\n"


@pytest.mark.parametrize("decision", ["approve", "deny"])
async def test_what_waits_for_a_decision_can_still_be_decided(
    tmp_path: Path, logs: Logs, decision: Literal["approve", "deny"]
) -> None:
    async with stage(tmp_path, Puppet(asks_for(shell("touch made"))), log=logs()) as home, home.client() as guest:
        session_id = await guest.start()
        run_id = await guest.send("go")
        asked = await guest.until(ApprovalRequired)
        await crash(home, session_id)
        async with taken_up(home, session_id, Puppet(answer()), logs()) as after:
            await after.until(Recovery)
            await after.client.approve(SubmitApproval(session_id, run_id, asked.approval_id, decision))
            assert (await after.until(RunComplete)).outcome == "success"
            assert [body.approval_id for body in after.bodies(ApprovalRequired)] == [asked.approval_id]
            assert len(after.bodies(ToolCall)) == 1
            assert (tmp_path / "made").exists() is (decision == "approve")


async def test_what_waited_too_long_has_expired(tmp_path: Path, logs: Logs) -> None:
    async with stage(tmp_path, Puppet(asks_for(shell("touch made"))), log=logs()) as home, home.client() as guest:
        session_id = await guest.start()
        run_id = await guest.send("go")
        asked = await guest.until(ApprovalRequired)
        await crash(home, session_id)
        told = Puppet(answer())
        async with taken_up(home, session_id, told, logs(), lambda: unix_ms() + 300_000) as after:
            assert (await after.until(RunComplete)).outcome == "success"
            assert "approval_expired" in after.types()
            assert "nobody decided in time" in told.results()[0]
            assert not (tmp_path / "made").exists()
            with pytest.raises(ProtocolError) as refusal:
                await after.client.approve(SubmitApproval(session_id, run_id, asked.approval_id, "approve"))
            assert refusal.value.code == "APPROVAL_EXPIRED"


async def test_what_waits_is_asked_again_where_it_would_do_something_else_now(tmp_path: Path, logs: Logs) -> None:
    (tmp_path / "a.txt").write_text("one")
    write = call("write_file", {"path": "a.txt", "content": "two"})
    async with stage(tmp_path, Puppet(asks_for(write)), log=logs()) as home, home.client() as guest:
        session_id = await guest.start()
        run_id = await guest.send("go")
        asked = await guest.until(ApprovalRequired)
        await crash(home, session_id)
        (tmp_path / "a.txt").write_text("changed meanwhile")
        async with taken_up(home, session_id, Puppet(answer()), logs()) as after:
            again = await after.until(ApprovalRequired, lambda body: body.approval_id != asked.approval_id)
            assert after.types()[-2:] == ["approval_expired", "approval_required"]
            with pytest.raises(ProtocolError) as refusal:
                await after.client.approve(SubmitApproval(session_id, run_id, asked.approval_id, "approve"))
            assert refusal.value.code == "APPROVAL_EXPIRED"
            await after.client.approve(SubmitApproval(session_id, run_id, again.approval_id, "approve"))
            await after.until(RunComplete)
            assert (tmp_path / "a.txt").read_text() == "two"


async def test_what_was_approved_but_not_started_is_started_once(tmp_path: Path) -> None:
    log = MemoryLog(lambda: 0)
    puppet = Puppet(asks_for(shell("echo x >> ledger")), answer())
    async with stage(tmp_path, puppet, log=log) as home, home.client() as guest:
        await guest.start()
        run_id = await guest.send("go")
        asked = await guest.until(ApprovalRequired)
        await guest.client.approve(SubmitApproval(guest.session_id, run_id, asked.approval_id, "approve"))
        await guest.until(RunComplete)
        copy = await cut_after(log, guest.session_id, "approval_received")
        async with taken_up(home, copy, Puppet(answer()), log) as after:
            assert (await after.until(RunComplete)).outcome == "success"
            assert len(after.bodies(ApprovalRequired)) == len(after.bodies(ApprovalReceived)) == 1
            assert (tmp_path / "ledger").read_text() == "x\nx\n"


async def test_a_call_that_was_started_is_not_started_again(tmp_path: Path, logs: Logs) -> None:
    command = shell("echo started; sleep 60; touch never")
    async with stage(tmp_path, Puppet(asks_for(command)), log=logs()) as home, home.client() as guest:
        session_id = await guest.start(approval_policy="all")
        await guest.send("go")
        await guest.until(ToolOutput)
        await crash(home, session_id)
        nonce = nonce_of(session_id, command.call_id)
        assert orphans.find(nonce) != []
        told = Puppet(answer("I looked"))
        async with taken_up(home, session_id, told, logs()) as after:
            assert (await after.until(RunComplete)).summary == "I looked"
            result = after.bodies(ToolResult)[0]
            assert result.structured_error is not None
            assert result.structured_error.type == "UNKNOWN_OUTCOME"
            assert "outcome is unknown" in told.results()[0]
            assert len(after.bodies(ToolClaimed)) == 1
            assert [body.action for body in after.bodies(Recovery)] == ["unknown_outcome"]
            assert orphans.find(nonce) == []
            assert not (tmp_path / "never").exists()


async def test_a_read_only_call_is_made_again(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("first")
    log = MemoryLog(lambda: 0)
    puppet = Puppet(asks_for(call("read_file", {"path": "a.txt"})), answer())
    async with stage(tmp_path, puppet, log=log) as home, home.client() as guest:
        await guest.start()
        await guest.send("go")
        await guest.until(RunComplete)
        copy = await cut_after(log, guest.session_id, "tool_call")
        (tmp_path / "a.txt").write_text("second")
        told = Puppet(answer())
        async with taken_up(home, copy, told, log) as after:
            await after.until(RunComplete)
            assert told.results() == ["second"]
            assert len(after.bodies(ToolCall)) == 1


async def test_a_run_between_two_checks_does_the_second(tmp_path: Path) -> None:
    log = MemoryLog(lambda: 0)
    checks = [Criterion("one", "echo x >> one"), Criterion("two", "echo x >> two")]
    async with stage(tmp_path, Puppet(answer()), log=log) as home, home.client() as guest:
        await guest.start()
        await guest.send("go", accept=checks)
        await guest.until(RunComplete)
        copy = await cut_after(log, guest.session_id, "acceptance_result")
        async with taken_up(home, copy, Puppet(), log) as after:
            done = await after.until(RunComplete)
            assert (done.outcome, done.acceptance and done.acceptance.passed) == ("success", 2)
        assert [(tmp_path / name).read_text() for name in ("one", "two")] == ["x\n", "x\nx\n"]


async def test_the_check_that_was_running_is_run_again(tmp_path: Path, logs: Logs) -> None:
    checks = [Criterion("one", "echo x >> one"), Criterion("two", "echo x >> two; test -e go || sleep 60")]
    async with stage(tmp_path, Puppet(answer()), log=logs()) as home, home.client() as guest:
        session_id = await guest.start()
        await guest.send("go", accept=checks)
        await guest.until(AcceptanceResult)
        await crash(home, session_id)
        (tmp_path / "go").touch()
        async with taken_up(home, session_id, Puppet(), logs()) as after:
            done = await after.until(RunComplete)
            assert (done.outcome, done.acceptance and done.acceptance.passed) == ("success", 2)
            assert (tmp_path / "one").read_text() == "x\n"


async def test_a_run_that_was_being_cancelled_is_cancelled(tmp_path: Path) -> None:
    log = MemoryLog(lambda: 0)
    puppet = Puppet([asyncio.Event()])
    async with stage(tmp_path, puppet, log=log) as home, home.client() as guest:
        await guest.start()
        run_id = await guest.send("go")
        await puppet.listening.wait()
        await guest.client.cancel(guest.session_id, run_id, "enough")
        await guest.until(RunComplete)
        copy = await cut_after(log, guest.session_id, "run_cancelling")
        async with taken_up(home, copy, Puppet(), log) as after:
            done = await after.until(RunComplete)
            assert (done.outcome, done.summary) == ("cancelled", "cancelled: enough")


async def test_a_run_that_was_answered_is_completed_without_asking_the_model_again(tmp_path: Path) -> None:
    log = MemoryLog(lambda: 0)
    async with stage(tmp_path, Puppet(answer("the answer")), log=log) as home, home.client() as guest:
        await guest.start()
        await guest.send("go")
        await guest.until(RunComplete)
        copy = await cut_after(log, guest.session_id, "usage")
        silent = Puppet()
        async with taken_up(home, copy, silent, log) as after:
            assert (await after.until(RunComplete)).summary == "the answer"
            assert silent.heard == []


async def test_a_window_does_not_survive_and_a_runs_own_policy_does(tmp_path: Path, logs: Logs) -> None:
    puppet = Puppet([asyncio.Event()])
    async with stage(tmp_path, puppet, log=logs()) as home, home.client() as guest:
        session_id = await guest.start()
        request = SetApprovalPolicy("until", 3600)
        await guest.client.request(request, SetApprovalPolicyReply, session_id)
        await guest.send("go", options=RunOptions("all", BudgetLimits(max_turns=7)))
        await puppet.listening.wait()
        await crash(home, session_id)
        later = Puppet(asks_for(shell("true")), answer(), asks_for(shell("true")))
        async with taken_up(home, session_id, later, logs()) as after:
            assert (await after.until(RunComplete)).outcome == "success"
            assert after.bodies(ApprovalRequired) == []
            changes = [(body.policy, body.by) for body in after.bodies(ApprovalPolicyChanged)]
            assert changes == [("until", "cli"), ("ask", "restart")]
            started = after.bodies(RunStarted)
            assert [body.recovered for body in started] == [False, True]
            assert started[0].options == started[1].options
            assert started[1].options.budget.max_turns == 7
            run_id = await after.send("again")
            await after.until(ApprovalRequired)
            await after.client.cancel(session_id, run_id)
            await after.until(RunComplete)


async def test_what_was_used_of_a_budget_is_not_given_back(tmp_path: Path, logs: Logs) -> None:
    used = asks_for(call("read_file", {"path": "missing"}))
    first = Puppet(used, [asyncio.Event()])
    async with stage(tmp_path, first, log=logs()) as home, home.client() as guest:
        session_id = await guest.start()
        await guest.send("go", options=RunOptions(budget=BudgetLimits(max_turns=3)))
        await first.listening.wait()
        await crash(home, session_id)
        second = Puppet(asks_for(call("read_file", {"path": "missing"})))
        async with taken_up(home, session_id, second, logs()) as after:
            done = await after.until(RunComplete)
            assert (done.outcome, done.reason) == ("failed", "budget_exceeded")
            assert [body.turn for body in after.bodies(Usage)] == [1, 3]


async def test_tokens_used_before_a_restart_count_after_it(tmp_path: Path, logs: Logs) -> None:
    spent = answer("", call("read_file", {"path": "missing"}), usage=TokenUsage(60_000, 30_000))
    first = Puppet(spent, [asyncio.Event()])
    async with stage(tmp_path, first, log=logs()) as home, home.client() as guest:
        session_id = await guest.start()
        await guest.send("go", options=RunOptions(budget=BudgetLimits(max_tokens=100_000)))
        await first.listening.wait()
        await crash(home, session_id)
        more = answer("", call("read_file", {"path": "missing"}), usage=TokenUsage(6_000, 5_000))
        async with taken_up(home, session_id, Puppet(more), logs()) as after:
            assert (await after.until(RunComplete)).reason == "budget_exceeded"
            lost = after.bodies(ModelRequest)[1].reserved_tokens
            assert lost
            assert after.bodies(Usage)[-1].budget.tokens == 101_000 + lost


async def test_a_switched_model_stays_switched(tmp_path: Path, logs: Logs) -> None:
    async with house(tmp_path, says("one"), log=logs()) as home, home.client() as guest:
        session_id = await guest.start()
        await guest.client.request(SwitchModel("other"), SwitchModelReply, session_id)
        await crash(home, session_id)
        async with house(tmp_path, says("two"), log=logs()) as later, later.client() as after:
            after.session_id = session_id
            await after.client.attach(session_id)
            await after.send("go")
            await after.until(RunComplete)
            assert [(body.profile, body.model) for body in after.bodies(ModelRequest)] == [("other", "other-model")]


async def test_a_session_whose_profile_is_gone_can_be_given_another(tmp_path: Path, logs: Logs) -> None:
    async with house(tmp_path, says("one"), log=logs(), profiles={"gone": Profile(api="scripted")}) as home:
        async with home.client() as guest:
            session_id = await guest.start(profile="gone")
        await crash(home, session_id)
    async with house(tmp_path, says("two"), log=logs()) as later, later.client() as after:
        after.session_id = session_id
        await after.client.attach(session_id)
        with pytest.raises(ProtocolError, match="unknown profile 'gone'"):
            await after.send("go")
        await after.client.request(SwitchModel("other"), SwitchModelReply, session_id)
        await after.send("go")
        await after.until(RunComplete)
        assert [body.profile for body in after.bodies(ModelRequest)] == ["other"]


@pytest.mark.parametrize("state", ["thinking", "asking"])
async def test_a_run_whose_folder_is_gone_ends_and_says_so(
    tmp_path: Path, logs: Logs, state: Literal["thinking", "asking"]
) -> None:
    never = asyncio.Event()
    puppet = Puppet([never]) if state == "thinking" else Puppet(asks_for(shell("rm -rf x")))
    folder = tmp_path / "work"
    folder.mkdir()
    async with stage(folder, puppet, log=logs()) as home, home.client() as guest:
        session_id = await guest.start(approval_policy="ask")
        await guest.send("go")
        await (puppet.listening.wait() if state == "thinking" else guest.until(ApprovalRequired))
        await crash(home, session_id)
    folder.rename(tmp_path / "elsewhere")
    async with stage(tmp_path, Puppet(answer("back")), log=logs()) as later, later.client() as after:
        await later.runtime.sessions.recover()
        after.session_id = session_id
        await after.client.attach(session_id)
        ended = await after.until(RunComplete)
        assert (ended.outcome, ended.reason) == ("failed", "interrupted")
        assert f"{folder} is not a directory on this machine" in ended.summary
        recorded = Recorded({session_id: await read_all(later.runtime.log, session_id)}, complete=True)
        assert check(recorded) == []
        with pytest.raises(ProtocolError, match="is not a directory on this machine"):
            await after.send("go on")
        (tmp_path / "elsewhere").rename(folder)
        await after.send("go on")
        assert (await after.until(RunComplete)).outcome == "success"


async def test_a_process_that_lost_its_session_stops_writing_and_closes(tmp_path: Path, logs: Logs) -> None:
    gate = asyncio.Event()
    puppet = Puppet([gate, *answer("too late")])
    async with stage(tmp_path, puppet, log=logs()) as home, home.client() as guest:
        session_id = await guest.start()
        run_id = await guest.send("go")
        await puppet.listening.wait()
        other = logs()
        lease = await other.acquire(session_id, this_owner())
        assert lease is not None
        with pytest.raises(ProtocolError) as refusal:
            await guest.client.cancel(session_id, run_id)
        assert refusal.value.code == "INTERNAL_ERROR"
        events = await read_all(other, session_id)
        assert "run_cancelling" not in [event.type for event in events]
        await other.close()
