"""How a sub-agent's run ended, read from its log: outcome, last message, and what it used."""

from msgspec import Struct

from buddy.backends.runstate import RunState
from buddy.log.contract import Log
from buddy.protocol.child_events import ChildStarted, ChildUsage
from buddy.protocol.codes import Outcome
from buddy.protocol.events import AssistantMessage, RunComplete
from buddy.protocol.shapes import BudgetLimits, StartedOptions
from buddy.sessions.past import read_pages

_COUNTED = frozenset({"model_request", "usage", "tool_call", "assistant_message", "tool_result", "child_finished"})
UNKNOWN = "its session no longer exists, so nobody knows what it did"


class ChildOutcome(Struct, frozen=True):
    outcome: Outcome
    summary: str
    text: str = ""
    usage: ChildUsage | None = None
    cost_usd: float | None = None
    reason: str | None = None


def unknown_outcome_of(started: ChildStarted) -> ChildOutcome:
    """What was lent to a sub-agent counts as spent if nobody knows what it used."""
    lent = started.budget
    usage = ChildUsage(input_tokens=lent.max_tokens or 0, tool_calls=lent.max_tool_calls or 0)
    return ChildOutcome("failed", UNKNOWN, usage=usage, cost_usd=lent.max_cost_usd, reason="unknown_outcome")


async def read_outcome(log: Log, session_id: str, run_id: str) -> ChildOutcome | None:
    """None while the run is not complete."""
    complete = await _completion(log, session_id, run_id)
    if complete is None:
        return None
    state, text = RunState(run_id, StartedOptions(budget=BudgetLimits()), 0), ""
    async for page in read_pages(log, session_id, types=_COUNTED):
        for event, body in page:
            if event.run_id == run_id and body is not None:
                state.apply(body)
                text = body.text or text if isinstance(body, AssistantMessage) else text
    lost = state.reserved
    usage = ChildUsage(
        turns=state.turns,
        input_tokens=state.input_tokens + state.lost_tokens + (lost.tokens if lost else 0),
        output_tokens=state.output_tokens,
        tool_calls=state.tool_calls,
    )
    cost = state.cost_usd
    if lost is not None and lost.cost_usd is not None:
        cost = (cost or 0.0) + lost.cost_usd
    return ChildOutcome(complete.outcome, complete.summary, text, usage, cost, complete.reason)


async def _completion(log: Log, session_id: str, run_id: str) -> RunComplete | None:
    latest = await log.last(session_id, ("run_complete",))
    events = [latest] if latest is not None and latest.run_id == run_id else []
    events = events or await log.read(session_id, 0, types=("run_complete",))
    bodies = (event.body() for event in events if event.run_id == run_id)
    return next((body for body in bodies if isinstance(body, RunComplete)), None)
