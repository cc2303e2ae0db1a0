"""What bounds a run and what ends it: budgets, acceptance checks, failures of the model and of tools."""

import asyncio
from pathlib import Path

import pytest

from buddy.errors import ProviderError
from buddy.log.memory import MemoryLog
from buddy.models.contract import Reply, Restart, Retrying, TextDelta, TokenUsage
from buddy.protocol.events import (
    AcceptanceResult,
    AssistantMessage,
    AssistantRestart,
    Error,
    ModelRequest,
    RunComplete,
    ToolCall,
    ToolOutput,
    ToolResult,
    UserMessage,
)
from buddy.protocol.shapes import BudgetLimits, Criterion, RunOptions
from tests.harness.clock import ManualClock
from tests.harness.files import names_in
from tests.harness.models import StepModel, Turn, answer, asks_for, call, shell
from tests.harness.runtime import RuntimeClient, checked_host


def reading() -> Turn:
    return answer("", call("read_file", {"path": "a.txt"}), usage=TokenUsage(6_000, 4_000))


async def outcome(client: RuntimeClient, budget: BudgetLimits | None = None) -> tuple[str, str | None, int | None]:
    await client.send("go", options=RunOptions(budget=budget))
    done = await client.wait_for(RunComplete)
    return done.outcome, done.reason, done.headless.exit_code_hint if done.headless else None


@pytest.mark.parametrize(
    ("budget", "turns"),
    [
        (BudgetLimits(max_turns=2), 2),
        (BudgetLimits(max_tokens=15_000), 2),
        (BudgetLimits(max_tool_calls=2), 3),
    ],
)
async def test_a_run_that_uses_up_its_budget_fails(tmp_path: Path, budget: BudgetLimits, turns: int) -> None:
    (tmp_path / "a.txt").write_text("a")
    model = StepModel(reading(), reading(), reading())
    async with checked_host(tmp_path, model) as host, host.client() as client:
        await client.start()
        assert await outcome(client, budget) == ("failed", "budget_exceeded", 5)
        assert len(model.received) == turns
        assert len(client.bodies(ToolResult)) == turns


async def test_a_run_may_use_exactly_its_budget(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    budget = BudgetLimits(max_turns=2, max_tool_calls=1, max_tokens=20_000)
    async with checked_host(tmp_path, StepModel(reading(), answer())) as host, host.client() as client:
        await client.start()
        assert await outcome(client, budget) == ("success", None, 0)


async def test_calls_beyond_the_budget_are_not_made_even_in_one_reply(tmp_path: Path) -> None:
    model = StepModel(asks_for(*(shell(f"touch made{number}") for number in range(4))))
    async with checked_host(tmp_path, model) as host, host.client() as client:
        await client.start(approval_policy="all")
        assert await outcome(client, BudgetLimits(max_tool_calls=2)) == ("failed", "budget_exceeded", 5)
        assert names_in(tmp_path, "made*") == ["made0", "made1"]
        assert len(client.bodies(ToolResult)) == 4


async def test_time_ends_a_run_in_the_middle_of_a_command(tmp_path: Path) -> None:
    model = StepModel(asks_for(shell("echo started; sleep 60; touch never")))
    async with checked_host(tmp_path, model) as host, host.client() as client:
        await client.start(approval_policy="all", budget=BudgetLimits(max_seconds=0.5))
        assert await outcome(client) == ("failed", "budget_exceeded", 5)
        assert not (tmp_path / "never").exists()


async def test_time_is_counted_from_the_start_of_the_run(tmp_path: Path, clock: ManualClock) -> None:
    gate = asyncio.Event()
    model = StepModel([gate, *answer()])
    async with checked_host(tmp_path, model, clock=clock) as host, host.client() as client:
        session_id = await client.start()
        await client.send("go", options=RunOptions(budget=BudgetLimits(max_seconds=100)))
        await model.waiting.wait()
        clock.advance(40)
        session = host.runtime.sessions.live(session_id)
        assert session is not None
        assert session.fold.run is not None
        assert (clock.now - session.fold.run.started_ts) == 40_000
        gate.set()
        assert (await client.wait_for(RunComplete)).outcome == "success"


async def test_a_run_whose_checks_pass_is_a_success_and_has_their_results(tmp_path: Path) -> None:
    async with checked_host(tmp_path, StepModel(answer())) as host, host.client() as client:
        await client.start()
        await client.send("go", accept=[Criterion("there", "echo fine"), Criterion("odd", "exit 3", 3)])
        done = await client.wait_for(RunComplete)
        assert done.outcome == "success"
        assert done.acceptance is not None
        assert [(result.id, result.passed, result.exit_code) for result in done.acceptance.results] == [
            ("there", True, 0),
            ("odd", True, 3),
        ]
        assert done.acceptance.results[0].output == "fine\n"


async def test_a_check_that_fails_is_reported_to_the_model_which_tries_again(tmp_path: Path) -> None:
    model = StepModel(answer("done"), asks_for(shell("touch wanted")), answer("now it is there"))
    async with checked_host(tmp_path, model) as host, host.client() as client:
        await client.start(approval_policy="all")
        await client.send("go", accept=[Criterion("wanted", "ls wanted")])
        done = await client.wait_for(RunComplete)
        assert (done.outcome, done.summary) == ("success", "now it is there")
        results = [(result.round, result.passed) for result in client.bodies(AcceptanceResult)]
        assert results == [(1, False), (2, True)]
        assert "Check wanted failed with exit code 2" in model.user_messages()[-1]
        assert [message.by for message in client.bodies(UserMessage)] == ["cli", "acceptance"]


async def test_checks_that_keep_failing_end_the_run(tmp_path: Path) -> None:
    async with checked_host(tmp_path, StepModel(answer(), answer(), answer())) as host, host.client() as client:
        await client.start()
        await client.send("go", accept=[Criterion("never", "exit 1"), Criterion("always", "true")])
        done = await client.wait_for(RunComplete)
        assert (done.outcome, done.reason) == ("failed", "acceptance_failed")
        assert (done.headless and done.headless.exit_code_hint, done.acceptance and done.acceptance.passed) == (4, 1)
        assert [result.round for result in client.bodies(AcceptanceResult)] == [1, 1, 2, 2, 3, 3]


async def test_the_end_of_a_long_check_output_is_kept(tmp_path: Path) -> None:
    check = Criterion("long", "yes | head -c 3000000; echo the reason; exit 1")
    async with checked_host(tmp_path, StepModel(answer(), answer(), answer())) as host, host.client() as client:
        await client.start()
        await client.send("go", accept=[check])
        done = await client.wait_for(RunComplete)
        assert done.acceptance is not None
        assert done.acceptance.results[0].output.endswith("the reason\n")


async def test_a_failure_of_the_provider_fails_the_run_and_is_reported(tmp_path: Path) -> None:
    model = StepModel([TextDelta("so f"), ProviderError("no credit left", retryable=False, hint="pay")], answer("fine"))
    async with checked_host(tmp_path, model) as host, host.client() as client:
        await client.start()
        assert await outcome(client) == ("failed", "provider_error", 1)
        error = client.bodies(Error)[0]
        assert (error.code, error.message, error.detail) == ("PROVIDER_ERROR", "no credit left", "pay")
        assert await outcome(client) == ("success", None, 0)


@pytest.mark.parametrize("bug", [ValueError("oops"), TimeoutError("a socket's, not ours"), TimeoutError()])
async def test_a_bug_ends_the_run_and_not_the_session(tmp_path: Path, bug: Exception) -> None:
    async with checked_host(tmp_path, StepModel([bug], answer())) as host, host.client() as client:
        await client.start()
        assert await outcome(client) == ("failed", "internal_error", 1)
        assert client.bodies(Error)[0].code == "INTERNAL_ERROR"
        assert await outcome(client) == ("success", None, 0)


async def test_a_reply_that_was_cut_off_is_never_a_success(tmp_path: Path) -> None:
    cut = [TextDelta("I will n"), Reply("I will n", finish="length", truncated=True, usage=TokenUsage(1, 1))]
    async with checked_host(tmp_path, StepModel(cut, answer())) as host, host.client() as client:
        await client.start(approval_policy="all")
        assert await outcome(client) == ("failed", "truncated", 1)
        assert client.bodies(AssistantMessage)[0].truncated
        assert client.bodies(ToolCall) == []


async def test_a_retry_is_announced_and_voids_what_was_said(tmp_path: Path) -> None:
    tries = [TextDelta("wro"), Retrying(2, "the line broke", 250), Restart("the line broke"), *answer("right")]
    async with checked_host(tmp_path, StepModel(tries)) as host, host.client() as client:
        await client.start()
        assert await outcome(client) == ("success", None, 0)
        first, second = client.bodies(ModelRequest)
        assert (first.turn, first.attempt, first.reason) == (1, 1, None)
        assert (second.turn, second.attempt, second.reason, second.wait_ms) == (1, 2, "the line broke", 250)
        kinds = [kind for kind in client.types() if kind.startswith(("assistant_t", "assistant_r", "assistant_m"))]
        assert kinds == ["assistant_token", "assistant_restart", "assistant_token", "assistant_message"]
        assert client.bodies(AssistantRestart)[0].reason == "the line broke"


@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [
        ("read_file", "{not json", "not valid JSON"),
        ("read_file", "[1]", "must be one JSON object"),
        ("read_file", '{"path": 3}', "path: expected str, got int"),
        ("read_file", "{}", "missing path"),
        ("raed_file", "{}", "unknown tool 'raed_file'. Available: "),
        ("read_file", '{"path": "missing.txt"}', "missing.txt"),
        ("run_shell", '{"command": "echo why >&2; exit 3"}', "exit code: 3"),
    ],
)
async def test_a_failed_call_is_reported_to_the_model_and_the_run_continues(
    tmp_path: Path, name: str, arguments: str, told: str
) -> None:
    model = StepModel(asks_for(call(name, arguments)), answer("then otherwise"))
    async with checked_host(tmp_path, model) as host, host.client() as client:
        await client.start(approval_policy="all")
        assert await outcome(client) == ("success", None, 0)
        result = client.bodies(ToolResult)[0]
        assert (result.is_error, result.structured_error is not None) == (True, True)
        assert told in result.text
        assert model.tool_results() == [result.text]


async def test_read_only_calls_of_one_reply_run_together_and_answer_in_order(tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / f"{number}.txt").write_text("x" * (100_000 if number == 0 else 1) + str(number))
    wanted = [call("read_file", {"path": f"{number}.txt"}) for number in range(5)]
    model = StepModel(asks_for(*wanted), answer())
    async with checked_host(tmp_path, model) as host, host.client() as client:
        await client.start()
        assert await outcome(client) == ("success", None, 0)
        kinds = [kind for kind in client.types() if kind in ("tool_call", "tool_result")]
        assert kinds == ["tool_call"] * 5 + ["tool_result"] * 5
        assert [result.call_id for result in client.bodies(ToolResult)] == [item.call_id for item in wanted]
        assert [text[-1] for text in model.tool_results()] == ["0", "1", "2", "3", "4"]


async def test_calls_that_change_something_run_one_after_the_other(tmp_path: Path) -> None:
    read = call("read_file", {"path": "a.txt"})
    model = StepModel(asks_for(shell("echo one > a.txt"), read, shell("echo two > a.txt")), answer())
    async with checked_host(tmp_path, model) as host, host.client() as client:
        await client.start(approval_policy="all")
        assert await outcome(client) == ("success", None, 0)
        assert model.tool_results()[1] == "one"
        kinds = [kind for kind in client.types() if kind in ("tool_call", "tool_result")]
        assert kinds == ["tool_call", "tool_result"] * 3


async def test_a_call_id_that_is_used_again_stays_unambiguous(tmp_path: Path) -> None:
    again = [call("run_shell", {"command": f"echo {number}"}, "call_same") for number in range(3)]
    model = StepModel(asks_for(again[0], again[1]), asks_for(again[2]), answer())
    async with checked_host(tmp_path, model) as host, host.client() as client:
        await client.start(approval_policy="all")
        assert await outcome(client) == ("success", None, 0)
        ids = [result.call_id for result in client.bodies(ToolResult)]
        assert ids == ["call_same", "call_same.2", "call_same.3"]
        assert [text.splitlines()[-1] for text in model.tool_results()] == ["0", "1", "2"]


async def test_a_full_disk_ends_the_run_before_the_next_side_effect(tmp_path: Path) -> None:
    log = MemoryLog(lambda: 0)
    log.room = False
    model = StepModel(asks_for(shell("touch made")))
    async with checked_host(tmp_path, model, log=log) as host, host.client() as client:
        await client.start(approval_policy="all")
        assert await outcome(client) == ("failed", "storage_full", 1)
        assert [(error.code, error.retryable) for error in client.bodies(Error)] == [("STORAGE_FULL", True)]
        assert not (tmp_path / "made").exists()
        assert client.bodies(ToolOutput) == []
