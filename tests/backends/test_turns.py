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
from tests.harness.models import StepModel, answer, asks_for, call, shell
from tests.harness.runtime import RuntimeClient, checked_host


def states(client: RuntimeClient) -> list[TurnState]:
    """The states of the run, without consecutive repetitions."""
    found: list[TurnState] = []
    run: RunState | None = None
    for event in client.received:
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
    model = StepModel(asks_for(call("read_file", {"path": "a.txt"})), answer("it says a"))
    async with checked_host(tmp_path, model) as host, host.client() as client:
        await client.start()
        await client.send("read a.txt")
        await client.wait_for(RunComplete)
        assert [event.type for event in client.received if event.type != "assistant_token"] == [
            "session_started",
            "user_message",  # persist the user's message
            "run_started",
            "progress",  # turn < max: continue
            "status",
            "model_request",  # the context is prepared, its room reserved: request a response
            "assistant_message",  # persist the assistant's message
            "assistant_done",
            "usage",  # settle the budget
            "progress",  # tool calls? yes
            "tool_call",  # execute them
            "tool_result",  # persist their results
            "progress",  # back to the turn check
            "status",
            "model_request",
            "assistant_message",
            "assistant_done",
            "usage",  # tool calls? no: yield
            "phase",
            "phase",
            "run_complete",
        ]
        assert states(client) == [
            TurnState.STREAMING,
            TurnState.TOOL_EXECUTION,
            TurnState.STREAMING,
            TurnState.YIELDING,
        ]
        assert [phase.name for phase in client.bodies(Phase)] == ["streaming", "tool_execution"]


async def test_the_phases_of_a_run_are_summed(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    turns = [asks_for(call("read_file", {"path": "a.txt"})) for _ in range(3)]
    async with checked_host(tmp_path, StepModel(*turns, answer("done"))) as host, host.client() as client:
        await client.start()
        await client.send("go")
        await client.wait_for(RunComplete)
        phases = client.bodies(Phase)
        assert [phase.name for phase in phases] == ["streaming", "tool_execution"]
        took = client.received[-1].ts - client.received[0].ts
        assert 0 < sum(phase.duration_ms for phase in phases) <= took + len(phases)


async def test_a_run_that_is_cut_short_reports_no_phases(tmp_path: Path) -> None:
    model = StepModel(asks_for(call("read_file", {"path": "missing"})))
    async with checked_host(tmp_path, model) as host, host.client() as client:
        await client.start()
        await client.send("go", options=RunOptions(budget=BudgetLimits(max_turns=1)))
        await client.wait_for(RunComplete)
        assert client.bodies(Phase) == []


async def test_the_turn_limit_ends_the_run_with_budget_exceeded(tmp_path: Path) -> None:
    model = StepModel(asks_for(call("read_file", {"path": "missing"})))
    async with checked_host(tmp_path, model) as host, host.client() as client:
        await client.start()
        await client.send("go", options=RunOptions(budget=BudgetLimits(max_turns=1)))
        assert (await client.wait_for(RunComplete)).reason == "budget_exceeded"
        assert states(client) == [TurnState.STREAMING, TurnState.TOOL_EXECUTION, TurnState.STREAMING]


@pytest.mark.parametrize("during", ["streaming", "tools"])
async def test_a_run_can_be_cancelled_in_every_state(tmp_path: Path, during: str) -> None:
    model = StepModel([asyncio.Event()] if during == "streaming" else asks_for(shell("echo on; sleep 60")))
    async with checked_host(tmp_path, model) as host, host.client() as client:
        await client.start(approval_policy="all")
        run_id = await client.send("go")
        if during == "streaming":
            await model.waiting.wait()
        else:
            await client.wait_for(Progress, lambda told: told.kind == "tool_execution")
        await client.api.cancel(client.session_id, run_id)
        assert (await client.wait_for(RunComplete)).outcome == "cancelled"
        before = [TurnState.STREAMING] if during == "streaming" else [TurnState.STREAMING, TurnState.TOOL_EXECUTION]
        assert states(client) == [*before, TurnState.CANCELLED]


async def test_the_cost_limit_ends_the_run_with_budget_exceeded(tmp_path: Path) -> None:
    spent = answer("", call("read_file", {"path": "missing"}), usage=TokenUsage(60_000, 1))
    async with checked_host(tmp_path, StepModel(spent)) as host, host.client() as client:
        await client.start()
        await client.send("go", options=RunOptions(budget=BudgetLimits(max_tokens=60_000)))
        assert (await client.wait_for(RunComplete)).reason == "budget_exceeded"


async def test_a_repeated_call_with_the_same_result_is_reported(tmp_path: Path) -> None:
    same = [asks_for(call("read_file", {"path": "a.txt"})) for _ in range(7)]
    (tmp_path / "a.txt").write_text("a")
    async with checked_host(tmp_path, StepModel(*same, answer())) as host, host.client() as client:
        await client.start()
        await client.send("go")
        assert (await client.wait_for(RunComplete)).outcome == "success"
        told = [(warning.code, warning.message) for warning in client.bodies(WarningRaised)]
        text = "read_file was called {} times in a row with the same arguments and the same result"
        assert told == [("REPEATED_CALL", text.format(3)), ("REPEATED_CALL", text.format(6))]


async def test_calls_with_different_arguments_or_results_are_not_repetitions(tmp_path: Path) -> None:
    grows = [asks_for(shell("echo x >> a.txt; cat a.txt")) for _ in range(4)]
    async with checked_host(tmp_path, StepModel(*grows, answer())) as host, host.client() as client:
        await client.start(approval_policy="all")
        await client.send("go")
        await client.wait_for(RunComplete)
        assert client.bodies(WarningRaised) == []


async def test_a_long_tool_call_reports_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "HEARTBEAT_SECONDS", 0.02)
    model = StepModel(asks_for(shell("until test -e enough; do sleep 0.01; done")), answer())
    async with checked_host(tmp_path, model) as host, host.client() as client:
        await client.start(approval_policy="all")
        await client.send("go")
        beats = 0
        while beats < 3:
            told = await client.wait_for(Progress, lambda told: told.message.endswith(" s)"))
            assert told.message.startswith("[1/50] Executing tools: run_shell (")
            assert told.tool_names == ("run_shell",)
            beats += 1
        (tmp_path / "enough").touch()
        await client.wait_for(ToolResult)
        assert (await client.wait_for(RunComplete)).outcome == "success"
