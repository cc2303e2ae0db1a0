"""The budget: reserved before a call, settled after it, preserved across a crash, shown to all clients."""

from pathlib import Path

import pytest

from buddy.errors import ProtocolError
from buddy.protocol.events import ModelRequest, RunComplete, ToolCall, Usage
from buddy.protocol.shapes import BudgetLimits, RunOptions
from tests.backends.test_context import notes, reading, working
from tests.backends.workers import PaidWorker, Worker, texts


def limited(**limits: float) -> RunOptions:
    return RunOptions(
        budget=BudgetLimits(
            max_turns=int(limits.get("turns", 50)),
            max_tokens=int(limits["tokens"]) if "tokens" in limits else None,
            max_cost_usd=limits.get("cost"),
            max_tool_calls=int(limits["calls"]) if "calls" in limits else None,
        )
    )


@pytest.mark.parametrize("limits", [{"tokens": 300}, {"cost": 0.3}])
async def test_a_call_that_cannot_fit_is_not_made(tmp_path: Path, limits: dict[str, float]) -> None:
    model = PaidWorker(lambda _: ())
    async with working(tmp_path, model) as (_, client):
        await client.send("go", options=limited(**limits))
        done = await client.wait_for(RunComplete)
        assert (done.outcome, done.reason) == ("failed", "budget_exceeded")
        assert done.headless is not None
        assert done.headless.exit_code_hint == 5
        assert "the next model call needs" in done.summary
        assert (model.prompts, client.bodies(ModelRequest)) == ([], [])


async def test_a_call_is_reserved_before_it_and_settled_after_it(tmp_path: Path) -> None:
    async with working(tmp_path, PaidWorker(lambda _: ())) as (_, client):
        await client.send("go", options=limited(cost=100))
        await client.wait_for(RunComplete)
        request, usage = client.bodies(ModelRequest)[0], client.bodies(Usage)[0]
        assert request.reserved_tokens is not None
        assert request.reserved_tokens > usage.input_tokens
        assert request.reserved_cost_usd == request.reserved_tokens / 1000
        assert usage.budget.tokens == usage.input_tokens + usage.output_tokens
        assert not usage.estimated


async def test_without_reported_usage_our_own_count_is_charged(tmp_path: Path) -> None:
    async with working(tmp_path, PaidWorker(lambda _: (), usage=False)) as (_, client):
        await client.send("go", options=limited(cost=100))
        await client.wait_for(RunComplete)
        usage = client.bodies(Usage)[0]
        assert usage.estimated
        assert usage.input_tokens > 100
        assert usage.budget.tokens == usage.input_tokens + usage.output_tokens
        assert usage.cost_usd == usage.budget.cost_usd
        assert usage.cost_usd


async def test_a_cost_limit_is_refused_if_the_price_is_unknown(tmp_path: Path) -> None:
    async with working(tmp_path, Worker(lambda _: ())) as (_, client):
        with pytest.raises(ProtocolError, match="the price of worker is unknown") as refused:
            await client.send("go", message_id="msg_1", options=limited(cost=1))
        assert refused.value.code == "INVALID_REQUEST"
        assert refused.value.detail == (
            "set input_price and output_price in [models.test], or limit turns, tokens or time instead"
        )
        await client.send("go", message_id="msg_1")
        assert (await client.wait_for(RunComplete)).outcome == "success"


async def test_the_model_learns_when_less_than_a_fifth_is_left(tmp_path: Path) -> None:
    notes(tmp_path, 12)
    model = Worker(lambda turn: (reading(turn),), limit=200_000)
    async with working(tmp_path, model) as (_, client):
        await client.send("go", options=limited(turns=10))
        assert (await client.wait_for(RunComplete)).reason == "budget_exceeded"
        told = [texts(tuple(prompt.items))[1:] for prompt in model.prompts]
        assert told[:9] == [[]] * 9
        assert told[9] == ["<budget>Budget left: 1 turn of 10 turns. Finish within it.</budget>"]


async def test_a_summary_is_charged_to_the_run_but_is_not_a_turn(tmp_path: Path) -> None:
    notes(tmp_path, 60)
    model = Worker(lambda turn: (reading(turn),) if turn < 36 else (), limit=16_384)
    async with working(tmp_path, model) as (_, client):
        await client.send("go", options=limited(turns=100))
        await client.wait_for(RunComplete)
        summaries = [body for body in client.bodies(ModelRequest) if body.purpose == "summary"]
        assert summaries
        assert all(body.reserved_tokens for body in summaries)
        last = client.bodies(Usage)[-1]
        assert last.budget.tokens == sum(body.input_tokens + body.output_tokens for body in client.bodies(Usage))
        assert last.budget.turns == 36
        assert len(client.bodies(ToolCall)) == 35
