"""The budget of a run: turns, tokens, cost, time and tool calls.

Invariants: everything limited is reserved before it is spent, and what does not fit is not started; spending and
reservations are in the log, so a restart refunds nothing.
"""

from collections.abc import Callable, Iterator

from msgspec import Struct

from buddy.backends.contract import Run
from buddy.backends.runstate import RunState, Spending
from buddy.errors import RunEnded
from buddy.models.contract import TokenUsage
from buddy.protocol.amounts import format_amount, format_usd
from buddy.protocol.codes import BudgetLimit
from buddy.protocol.shapes import BudgetLimits, BudgetState

MIN_OUTPUT = 256
"""A shorter reply is useless, so a model call that leaves less room for it is not made."""
LOW = 0.2
DIVIDED: tuple[BudgetLimit, ...] = ("tokens", "cost", "tool_calls")
LEAST: dict[BudgetLimit, float] = {"turns": 1, "tokens": MIN_OUTPUT, "cost": 1e-6, "seconds": 1e-3, "tool_calls": 1}
"""What a sub-agent needs at least of each limit; with less of the cost, no run is of use."""
UNITS: dict[BudgetLimit, str] = {
    "turns": "turn",
    "tokens": "token",
    "cost": "US dollar",
    "seconds": "second",
    "tool_calls": "tool call",
}


class BudgetExceeded(RunEnded):
    def __init__(self, limit: BudgetLimit, message: str) -> None:
        super().__init__("budget_exceeded", message)
        self.limit: BudgetLimit = limit


class Budget(Struct, frozen=True):
    """What is left."""

    state: RunState
    clock: Callable[[], float]
    """The seconds since the run began; few limits need them."""
    check_day: Callable[[], None] | None = None

    @classmethod
    def of(cls, run: Run) -> "Budget":
        return cls(run.state, run.seconds, run.check_day)

    def check(self) -> None:
        """Refuse a turn if any limit is exhausted, of the run or of the day."""
        if self.check_day is not None:
            self.check_day()
        for name, limit, used in self._lines():
            least = LEAST["cost"] if name == "cost" else 0.0  # less buys nothing
            if used >= limit - least and name != "tool_calls":
                raise BudgetExceeded(name, used_up(limit, name))

    def reserve(self, wanted: Spending) -> None:
        """Refuse a model call that does not fit into what is left."""
        self.check()
        if not self.fits(wanted):
            limits = self.state.options.budget
            tokens = _amount(wanted.tokens, "tokens")
            cost = "" if wanted.cost_usd is None else f" or {_amount(wanted.cost_usd, 'cost')}"
            over: BudgetLimit = "cost" if self._fits_tokens(wanted) else "tokens"
            limit = limits.max_tokens if over == "tokens" else limits.max_cost_usd
            left = f"more than is left of {_amount(limit or 0, over)}"
            raise BudgetExceeded(over, f"the next model call needs {tokens}{cost}: {left}")

    def fits(self, wanted: Spending) -> bool:
        return self._fits_tokens(wanted) and self._fits_cost(wanted)

    def share(self, shares: int) -> BudgetLimits | None:
        """An equal share of what is left, for a sub-agent; None if it would be too small to be of use.

        Turns and time are not divided: sub-agents work at the same time, each in a conversation of its own.
        """
        left: dict[BudgetLimit, float] = {}
        for name, limit, used in self._lines():
            left[name] = (limit - used) / (shares if name in DIVIDED else 1)
            if left[name] < LEAST[name]:
                return None
        return BudgetLimits(
            max_turns=_whole(left.get("turns")),
            max_cost_usd=left.get("cost"),
            max_tokens=_whole(left.get("tokens")),
            max_seconds=left.get("seconds"),
            max_tool_calls=_whole(left.get("tool_calls")),
        )

    def reserve_tool_call(self) -> None:
        """Refuse a tool call over the limit; after the last one that fits, the model may still answer."""
        limit = self.state.options.budget.max_tool_calls
        if limit is not None and self._tool_calls >= limit:
            raise BudgetExceeded("tool_calls", used_up(limit, "tool_calls"))

    def after(self, usage: TokenUsage) -> BudgetState:
        """What the run has used, including this call."""
        state, cost = self.state, usage.cost_usd
        known = cost is not None or state.cost_usd is not None
        return BudgetState(
            turns=state.turns,
            tokens=state.tokens + usage.input_tokens + usage.output_tokens,
            tool_calls=state.tool_calls,
            seconds=self.clock(),
            limits=state.options.budget,
            cost_usd=(state.cost_usd or 0.0) + (cost or 0.0) if known else None,
        )

    def shortage(self) -> str:
        """One line that warns the model about limits that are nearly exhausted; empty otherwise."""
        short = [
            f"{_amount(max(0, limit - used), name)} of {_amount(limit, name)}"
            for name, limit, used in self._lines()
            if limit - used < LOW * limit
        ]
        return f"Budget left: {', '.join(short)}. Finish within it." if short else ""

    def _lines(self) -> Iterator[tuple[BudgetLimit, float, float]]:
        """Each limit that is set, and what is used of it."""
        limits = self.state.options.budget
        if limits.max_turns is not None:
            yield "turns", limits.max_turns, self.state.turns
        if limits.max_tokens is not None:
            yield "tokens", limits.max_tokens, self._tokens
        if limits.max_cost_usd is not None:
            yield "cost", limits.max_cost_usd, self._cost
        if limits.max_seconds is not None:
            yield "seconds", limits.max_seconds, self.clock()
        if limits.max_tool_calls is not None:
            yield "tool_calls", limits.max_tool_calls, self._tool_calls

    def _fits_tokens(self, wanted: Spending) -> bool:
        limit = self.state.options.budget.max_tokens
        return limit is None or self._tokens + wanted.tokens <= limit

    def _fits_cost(self, wanted: Spending) -> bool:
        limit = self.state.options.budget.max_cost_usd
        return limit is None or self._cost + (wanted.cost_usd or 0.0) <= limit

    @property
    def _tokens(self) -> int:
        lent = sum(child.budget.max_tokens or 0 for child in self.state.working_children)
        return self.state.tokens + lent + (self.state.reserved.tokens if self.state.reserved else 0)

    @property
    def _cost(self) -> float:
        reserved = self.state.reserved.cost_usd if self.state.reserved else None
        lent = sum(child.budget.max_cost_usd or 0.0 for child in self.state.working_children)
        return (self.state.cost_usd or 0.0) + lent + (reserved or 0.0)

    @property
    def _tool_calls(self) -> int:
        lent = sum(child.budget.max_tool_calls or 0 for child in self.state.working_children)
        return self.state.tool_calls + lent


def used_up(limit: float, name: BudgetLimit) -> str:
    return f"the budget of {_amount(limit, name)} is used up"


def _whole(amount: float | None) -> int | None:
    return None if amount is None else int(amount)


def _amount(number: float, name: BudgetLimit) -> str:
    return f"{format_usd(number)} {UNITS[name]}s" if name == "cost" else format_amount(number, UNITS[name])
