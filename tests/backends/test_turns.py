"""The turn loop follows its diagram: each state and transition, and what is reported meanwhile."""

import asyncio
from pathlib import Path

import pytest

from buddy.backends.native import watch
from buddy.backends.runstate import RunState, TurnState
from buddy.models.contract import TokenUsage
from buddy.protocol.events import (
    EventBody,
    Phase,
    Progress,
    RunComplete,
    RunStarted,
    ToolResult,
    WarningRaised,
)
from buddy.protocol.shapes import BudgetLimits, RunOptions
from harness import Guest
from sessions.stage import Puppet, answer, asks_for, call, shell, stage


def states(guest: Guest) -> list[TurnState]:
    """The states of the run, without consecutive repetitions."""
    found: list[TurnState] = []
    run: RunState | None = None
    for event in guest.received:
        body: EventBody | None = event.body()
        if isinstance(body, RunStarted):
            run = RunState(body.run_id, body.options, event.ts)
        if run is not None and body is not None:
            run.apply(body)
            if not found or found[-1] != run.turn_state:
                found.append(run.turn_state)
    return found


async def test_every_step_of_the_loop_is_recorded_in_order(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    puppet = Puppet(asks_for(call("read_file", {"path": "a.txt"})), answer("it says a"))
    async with stage(tmp_path, puppet) as home, home.client() as guest:
        await guest.start()
        await guest.send("read a.txt")
        await guest.until(RunComplete)
        assert [event.type for event in guest.received if event.type != "assistant_token"] == [
            "session_started",
            "user_message",  # persist the user's message
            "run_started",
            "progress",  # turn < max: continue
            "status",
            "model_request",  # the context is prepared, its room reserved: request a response
            "assistant_message",  # persist the assistant's message
            "assistant_done",
            "usage",  # settle the budget
            "phase",
            "progress",  # tool calls? yes
            "tool_call",  # execute them
            "tool_result",  # persist their results
            "phase",
            "progress",  # back to the turn check
            "status",
            "model_request",
            "assistant_message",
            "assistant_done",
            "usage",
            "phase",
            "run_complete",  # tool calls? no: yield
        ]
        assert states(guest) == [
            TurnState.STREAMING,
            TurnState.TOOL_EXECUTION,
            TurnState.STREAMING,
            TurnState.YIELDING,
        ]
        assert [phase.name for phase in guest.bodies(Phase)] == ["streaming", "tool_execution", "streaming"]


async def test_the_turn_limit_ends_the_run_with_budget_exceeded(tmp_path: Path) -> None:
    puppet = Puppet(asks_for(call("read_file", {"path": "missing"})))
    async with stage(tmp_path, puppet) as home, home.client() as guest:
        await guest.start()
        await guest.send("go", options=RunOptions(budget=BudgetLimits(max_turns=1)))
        assert (await guest.until(RunComplete)).reason == "budget_exceeded"
        assert states(guest) == [TurnState.STREAMING, TurnState.TOOL_EXECUTION, TurnState.STREAMING]


@pytest.mark.parametrize("during", ["streaming", "tools"])
async def test_a_run_can_be_cancelled_in_every_state(tmp_path: Path, during: str) -> None:
    puppet = Puppet([asyncio.Event()] if during == "streaming" else asks_for(shell("echo on; sleep 60")))
    async with stage(tmp_path, puppet) as home, home.client() as guest:
        await guest.start(approval_policy="all")
        run_id = await guest.send("go")
        if during == "streaming":
            await puppet.listening.wait()
        else:
            await guest.until(Progress, lambda told: told.kind == "tool_execution")
        await guest.client.cancel(guest.session_id, run_id)
        assert (await guest.until(RunComplete)).outcome == "cancelled"
        before = [TurnState.STREAMING] if during == "streaming" else [TurnState.STREAMING, TurnState.TOOL_EXECUTION]
        assert states(guest) == [*before, TurnState.CANCELLED]


async def test_the_cost_limit_ends_the_run_with_budget_exceeded(tmp_path: Path) -> None:
    spent = answer("", call("read_file", {"path": "missing"}), usage=TokenUsage(60_000, 1))
    async with stage(tmp_path, Puppet(spent)) as home, home.client() as guest:
        await guest.start()
        await guest.send("go", options=RunOptions(budget=BudgetLimits(max_tokens=60_000)))
        assert (await guest.until(RunComplete)).reason == "budget_exceeded"


async def test_a_repeated_call_with_the_same_result_is_reported(tmp_path: Path) -> None:
    same = [asks_for(call("read_file", {"path": "a.txt"})) for _ in range(4)]
    (tmp_path / "a.txt").write_text("a")
    async with stage(tmp_path, Puppet(*same, answer())) as home, home.client() as guest:
        await guest.start()
        await guest.send("go")
        assert (await guest.until(RunComplete)).outcome == "success"
        told = [(warning.code, warning.message) for warning in guest.bodies(WarningRaised)]
        text = "read_file was called {} times in a row with the same arguments and the same result"
        assert told == [("REPEATED_CALL", text.format(3)), ("REPEATED_CALL", text.format(4))]


async def test_calls_with_different_arguments_or_results_are_not_repetitions(tmp_path: Path) -> None:
    grows = [asks_for(shell("echo x >> a.txt; cat a.txt")) for _ in range(4)]
    async with stage(tmp_path, Puppet(*grows, answer())) as home, home.client() as guest:
        await guest.start(approval_policy="all")
        await guest.send("go")
        await guest.until(RunComplete)
        assert guest.bodies(WarningRaised) == []


async def test_a_long_tool_call_reports_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "HEARTBEAT_SECONDS", 0.02)
    puppet = Puppet(asks_for(shell("until test -e enough; do sleep 0.01; done")), answer())
    async with stage(tmp_path, puppet) as home, home.client() as guest:
        await guest.start(approval_policy="all")
        await guest.send("go")
        beats = 0
        while beats < 3:
            told = await guest.until(Progress, lambda told: told.message.endswith(" s)"))
            assert told.message.startswith("[1/50] Executing tools: run_shell (")
            assert told.tool_names == ("run_shell",)
            beats += 1
        (tmp_path / "enough").touch()
        await guest.until(ToolResult)
        assert (await guest.until(RunComplete)).outcome == "success"
