"""What a session records of its sub-agents: each is a session of its own, which one of its calls started."""

from buddy.protocol.codes import Outcome
from buddy.protocol.facts import EventFacts, Payload
from buddy.protocol.ids import SessionId
from buddy.protocol.shapes import BudgetLimits, Count, Shape


class ChildUsage(Shape, frozen=True):
    """What a sub-agent used, with its own sub-agents."""

    turns: Count = 0
    input_tokens: Count = 0
    output_tokens: Count = 0
    tool_calls: Count = 0


class ChildStarted(Payload, frozen=True, kw_only=True):
    """Until it has finished, `budget` counts as spent in the parent."""

    facts = EventFacts(of_run=True, copied=True)
    session_id: SessionId
    call_id: str
    agent: str
    budget: BudgetLimits


class ChildFinished(Payload, frozen=True, kw_only=True):
    """`reason` is that of the sub-agent's `run_complete`, or `unknown_outcome` if its log no longer exists."""

    facts = EventFacts(of_run=True, copied=True)
    session_id: SessionId
    call_id: str
    agent: str
    outcome: Outcome
    usage: ChildUsage
    cost_usd: float | None = None
    reason: str | None = None
