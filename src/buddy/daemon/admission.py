"""What each user may have at once: sessions, runs, and cost per day.

Invariants: the numbers are those of the log, so they hold over restarts and over all nodes; two requests of one user
are counted one after the other; a run gets no larger cost limit than what is left of the day.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary

from msgspec.structs import replace

from buddy.daemon.limits import UserLimits
from buddy.errors import ProtocolError
from buddy.log.contract import SessionRows
from buddy.protocol.shapes import BudgetLimits, RunOptions
from buddy.sessions.listing import day_of
from buddy.sessions.session import Session


class Admission:
    """`limits` is read at every request, because the configuration may change."""

    def __init__(self, limits: Callable[[], UserLimits], rows: SessionRows, clock: Callable[[], int]) -> None:
        self._limits = limits
        self._rows = rows
        self._clock = clock
        self._counting: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def session(self, user: str | None) -> AsyncGenerator[None]:
        """Create a session in this context; refused if the user has as many as allowed."""
        most = self._limits().sessions
        if user is None or most is None:
            yield
            return
        async with self._lock_of(user):
            have = (await self._rows.usage_of(user, 0)).sessions
            if have >= most:
                raise _refusal(f"{have} of {most} sessions exist; delete one first")
            yield

    @asynccontextmanager
    async def run(self, session: Session) -> AsyncGenerator[float | None]:
        """Start a run in this context; refused if the user has as many as allowed. What it may cost, if limited."""
        limits, user = self._limits(), session.user
        if user is None or session.fold.run is not None or limits == UserLimits(sessions=limits.sessions):
            yield None
            return
        async with self._lock_of(user):
            usage = await self._rows.usage_of(user, day_of(self._clock()))
            if limits.runs is not None and usage.runs >= limits.runs:
                raise _refusal(f"{usage.runs} of {limits.runs} runs are active")
            left = None if limits.cost_usd_per_day is None else limits.cost_usd_per_day - usage.cost_usd
            if left is not None and left <= 0:
                spent = f"{usage.cost_usd:.2f} of {limits.cost_usd_per_day:.2f} USD are spent today"
                raise _refusal(f"{spent}; the limit is renewed at 00:00 UTC")
            yield left if left is not None and await session.backend.is_priced(session.place) else None

    def _lock_of(self, user: str) -> asyncio.Lock:
        lock = self._counting.get(user)
        if lock is None:
            lock = self._counting[user] = asyncio.Lock()
        return lock


def capped(options: RunOptions | None, session: Session, left: float | None) -> RunOptions | None:
    """The options of a run that may cost this much at most."""
    if left is None:
        return options
    options = options or RunOptions()
    started = session.fold.started
    outer = started.options.budget if started and started.options else None
    wanted = (options.budget and options.budget.max_cost_usd) or (outer and outer.max_cost_usd)
    budget = options.budget or BudgetLimits()
    return replace(options, budget=replace(budget, max_cost_usd=min(wanted or left, left)))


def _refusal(why: str) -> ProtocolError:
    return ProtocolError("OVERLOADED", f"your limit is reached: {why}", retryable=True)
