"""What the current day has cost: of all sessions together, and of each user, where a limit is configured.

Invariants: a day begins at 00:00 UTC, and its totals at zero; a cost counts as soon as it is recorded, so that all
runs of this process are held to one total; a total is never above what was spent. What other processes on the same log
spend is learned from the log whenever a run starts. Calls of models without a known price add nothing.
"""

from collections.abc import Callable

from msgspec import Struct

from buddy.backends.budget import BudgetExceeded
from buddy.daemon.limits import Limits
from buddy.errors import ProtocolError
from buddy.log.contract import SessionRows
from buddy.protocol.amounts import format_usd
from buddy.sessions.listing import day_of

EVERYBODY = None
"""The key of the total of all sessions, and of sessions without a user."""


class ReachedLimit(Struct, frozen=True):
    """A limit of the day that is reached, in words."""

    message: str
    hint: str


def make_day_costs(limits: Limits, rows: SessionRows, clock: Callable[[], int]) -> "DayCosts | None":
    """None without a limit: then nothing is counted."""
    if limits.cost_usd_per_day is None and limits.user.cost_usd_per_day is None:
        return None
    return DayCosts(limits, rows, clock)


class DayCosts:
    """Satisfies `sessions.services.DayLimit`."""

    def __init__(self, limits: Limits, rows: SessionRows, clock: Callable[[], int]) -> None:
        self._limit = limits.cost_usd_per_day
        self._user_limit = limits.user.cost_usd_per_day
        self._rows = rows
        self._clock = clock
        self._day = day_of(clock())
        self._totals: dict[str | None, float] = {}

    def add(self, user: str | None, cost_usd: float, ts: int) -> None:
        """Count what was recorded at a time."""
        self._begin_day()
        if day_of(ts) != self._day:
            return
        for key in {EVERYBODY, user}:
            self._totals[key] = self._totals.get(key, 0.0) + cost_usd

    def check(self, user: str | None) -> None:
        """End a run of this user if a limit is reached."""
        reached = self._reached(user)
        if reached is not None:
            raise BudgetExceeded("cost", f"{reached.message}; {reached.hint}")

    async def refresh(self, user: str | None) -> None:
        """Learn from the log what was spent elsewhere, and before this process began."""
        day = day_of(self._clock())
        if self._limit is not None:
            self._learn(EVERYBODY, day, await self._rows.cost_of(day))
        if user is not None and self._user_limit is not None:
            self._learn(user, day, (await self._rows.usage_of(user, day)).cost_usd)

    async def admit(self, user: str | None) -> None:
        """Refuse a run of this user if a limit is reached."""
        await self.refresh(user)
        reached = self._reached(user)
        if reached is not None:
            raise ProtocolError("OVERLOADED", reached.message, retryable=True, detail=reached.hint)

    def _begin_day(self) -> None:
        day = day_of(self._clock())
        if day != self._day:
            self._day = day
            self._totals.clear()

    def _learn(self, key: str | None, day: int, spent: float) -> None:
        self._begin_day()
        if day == self._day:
            # Both are lower bounds: the log may lack what is being committed, this process what others have spent.
            self._totals[key] = max(self._totals.get(key, 0.0), spent)

    def _reached(self, user: str | None) -> ReachedLimit | None:
        self._begin_day()
        spent = self._totals.get(EVERYBODY, 0.0)
        if self._limit is not None and spent >= self._limit:
            message = f"the daily cost limit is reached: {_spent(spent, self._limit, '[limits]')}"
            hint = "raise cost_usd_per_day in [limits] of buddy.toml; a running daemon needs: buddy daemon restart"
            return ReachedLimit(message, _wait(self._limit) + hint)
        own = self._totals.get(user, 0.0)
        if user is not None and self._user_limit is not None and own >= self._user_limit:
            message = f"your daily cost limit is reached: {_spent(own, self._user_limit, '[limits.user]')}"
            hint = "ask the owner of this daemon to raise cost_usd_per_day in [limits.user]"
            return ReachedLimit(message, _wait(self._user_limit) + hint)
        return None


def _spent(spent: float, most: float, table: str) -> str:
    return f"{format_usd(spent)} of {format_usd(most)} USD are spent today (cost_usd_per_day in {table})"


def _wait(most: float) -> str:
    return "wait until 00:00 UTC, or " if most else ""  # where nothing may be spent, no day is better
