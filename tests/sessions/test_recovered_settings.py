"""What a recovered session keeps: policies, budgets, the model, and what it does without its profile or folder."""

import asyncio
from pathlib import Path
from typing import Literal

import pytest

from buddy.config.settings import Profile
from buddy.errors import ProtocolError
from buddy.log.owners import this_owner
from buddy.models.contract import TokenUsage
from buddy.protocol.events import (
    ApprovalPolicyChanged,
    ApprovalRequired,
    ModelRequest,
    RunComplete,
    RunStarted,
    Usage,
)
from buddy.protocol.requests import (
    SetApprovalPolicy,
    SetApprovalPolicyReply,
    SwitchModel,
    SwitchModelReply,
)
from buddy.protocol.shapes import BudgetLimits, RunOptions
from tests.harness.checker import Recorded, check
from tests.harness.logs import read_all
from tests.harness.models import StepModel, answer, asks_for, call, says, shell
from tests.harness.runtime import checked_host, crash, scripted_host
from tests.sessions.recovering import Logs, recovered_client


async def test_a_window_does_not_survive_and_a_runs_own_policy_does(tmp_path: Path, logs: Logs) -> None:
    model = StepModel([asyncio.Event()])
    async with checked_host(tmp_path, model, log=logs()) as host, host.client() as client:
        session_id = await client.start()
        request = SetApprovalPolicy("until", 3600)
        await client.api.request(request, SetApprovalPolicyReply, session_id)
        await client.send("go", options=RunOptions("all", BudgetLimits(max_turns=7)))
        await model.waiting.wait()
        await crash(host, session_id)
        later = StepModel(asks_for(shell("true")), answer(), asks_for(shell("true")))
        async with recovered_client(host, session_id, later, logs()) as after:
            assert (await after.wait_for(RunComplete)).outcome == "success"
            assert after.bodies(ApprovalRequired) == []
            changes = [(body.policy, body.by) for body in after.bodies(ApprovalPolicyChanged)]
            assert changes == [("until", "cli"), ("ask", "restart")]
            started = after.bodies(RunStarted)
            assert [body.recovered for body in started] == [False, True]
            assert started[0].options == started[1].options
            assert started[1].options.budget.max_turns == 7
            run_id = await after.send("again")
            await after.wait_for(ApprovalRequired)
            await after.api.cancel(session_id, run_id)
            await after.wait_for(RunComplete)


async def test_a_used_budget_stays_used(tmp_path: Path, logs: Logs) -> None:
    used = asks_for(call("read_file", {"path": "missing"}))
    first = StepModel(used, [asyncio.Event()])
    async with checked_host(tmp_path, first, log=logs()) as host, host.client() as client:
        session_id = await client.start()
        await client.send("go", options=RunOptions(budget=BudgetLimits(max_turns=3)))
        await first.waiting.wait()
        await crash(host, session_id)
        second = StepModel(asks_for(call("read_file", {"path": "missing"})))
        async with recovered_client(host, session_id, second, logs()) as after:
            done = await after.wait_for(RunComplete)
            assert (done.outcome, done.reason) == ("failed", "budget_exceeded")
            assert [body.turn for body in after.bodies(Usage)] == [1, 3]


async def test_tokens_used_before_a_restart_count_after_it(tmp_path: Path, logs: Logs) -> None:
    spent = answer("", call("read_file", {"path": "missing"}), usage=TokenUsage(60_000, 30_000))
    first = StepModel(spent, [asyncio.Event()])
    async with checked_host(tmp_path, first, log=logs()) as host, host.client() as client:
        session_id = await client.start()
        await client.send("go", options=RunOptions(budget=BudgetLimits(max_tokens=100_000)))
        await first.waiting.wait()
        await crash(host, session_id)
        more = answer("", call("read_file", {"path": "missing"}), usage=TokenUsage(6_000, 5_000))
        async with recovered_client(host, session_id, StepModel(more), logs()) as after:
            assert (await after.wait_for(RunComplete)).reason == "budget_exceeded"
            lost = after.bodies(ModelRequest)[1].reserved_tokens
            assert lost
            assert after.bodies(Usage)[-1].budget.tokens == 101_000 + lost


async def test_a_switched_model_stays_switched(tmp_path: Path, logs: Logs) -> None:
    async with scripted_host(tmp_path, says("one"), log=logs()) as host, host.client() as client:
        session_id = await client.start()
        await client.api.request(SwitchModel("other"), SwitchModelReply, session_id)
        await crash(host, session_id)
        async with scripted_host(tmp_path, says("two"), log=logs()) as later, later.client() as after:
            after.session_id = session_id
            await after.api.attach(session_id)
            await after.send("go")
            await after.wait_for(RunComplete)
            assert [(body.profile, body.model) for body in after.bodies(ModelRequest)] == [("other", "other-model")]


async def test_a_session_whose_profile_is_gone_can_be_given_another(tmp_path: Path, logs: Logs) -> None:
    async with scripted_host(tmp_path, says("one"), log=logs(), profiles={"gone": Profile(api="scripted")}) as host:
        async with host.client() as client:
            session_id = await client.start(profile="gone")
        await crash(host, session_id)
    async with scripted_host(tmp_path, says("two"), log=logs()) as later, later.client() as after:
        after.session_id = session_id
        await after.api.attach(session_id)
        with pytest.raises(ProtocolError, match="unknown profile 'gone'"):
            await after.send("go")
        await after.api.request(SwitchModel("other"), SwitchModelReply, session_id)
        await after.send("go")
        await after.wait_for(RunComplete)
        assert [body.profile for body in after.bodies(ModelRequest)] == ["other"]


@pytest.mark.parametrize("state", ["thinking", "asking"])
async def test_a_run_whose_folder_is_gone_ends_and_says_so(
    tmp_path: Path, logs: Logs, state: Literal["thinking", "asking"]
) -> None:
    never = asyncio.Event()
    model = StepModel([never]) if state == "thinking" else StepModel(asks_for(shell("rm -rf x")))
    folder = tmp_path / "work"
    folder.mkdir()
    async with checked_host(folder, model, log=logs()) as host, host.client() as client:
        session_id = await client.start(approval_policy="ask")
        await client.send("go")
        await (model.waiting.wait() if state == "thinking" else client.wait_for(ApprovalRequired))
        await crash(host, session_id)
    folder.rename(tmp_path / "elsewhere")
    async with checked_host(tmp_path, StepModel(answer("back")), log=logs()) as later, later.client() as after:
        await later.runtime.sessions.recover()
        after.session_id = session_id
        await after.api.attach(session_id)
        ended = await after.wait_for(RunComplete)
        assert (ended.outcome, ended.reason) == ("failed", "interrupted")
        assert f"the folder {folder} does not exist on this machine" in ended.summary
        recorded = Recorded({session_id: await read_all(later.runtime.log, session_id)}, complete=True)
        assert check(recorded) == []
        with pytest.raises(ProtocolError, match="does not exist on this machine"):
            await after.send("go on")
        (tmp_path / "elsewhere").rename(folder)
        await after.send("go on")
        assert (await after.wait_for(RunComplete)).outcome == "success"


async def test_a_process_that_lost_its_session_stops_writing_and_closes(tmp_path: Path, logs: Logs) -> None:
    gate = asyncio.Event()
    model = StepModel([gate, *answer("too late")])
    async with checked_host(tmp_path, model, log=logs()) as host, host.client() as client:
        session_id = await client.start()
        run_id = await client.send("go")
        await model.waiting.wait()
        other = logs()
        lease = await other.acquire(session_id, this_owner())
        assert lease is not None
        with pytest.raises(ProtocolError) as refusal:
            await client.api.cancel(session_id, run_id)
        assert refusal.value.code == "INTERNAL_ERROR"
        events = await read_all(other, session_id)
        assert "run_cancelling" not in [event.type for event in events]
        await other.close()
