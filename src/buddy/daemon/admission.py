"""What each user may have at once: sessions, runs, and cost per day.

Invariants: the numbers are those of the log, so they hold over restarts and over all nodes; two requests of one user
are counted one after the other; a run gets no larger cost limit than what is left of the day.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from weakref import WeakValueDictionary

from buddy.daemon.limits import UserLimits
from buddy.errors import ProtocolError
from buddy.log.contract import SessionRows
from buddy.sessions.listing import day_of
from buddy.sessions.session import Session


class Admission:
    """`limits` is read at every request, because the configuration may change."""

    def __init__(self, limits: Callable[[], UserLimits], rows: SessionRows, clock: Callable[[], int]) -> None:
        self._limits = limits
        self._rows = rows
        self._clock = clock
        self._counting: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self.take_turn: Callable[[str], AbstractAsyncContextManager[None]] = lambda _: nullcontext()
        """Where several nodes share the log, they count one after the other, too."""

    @asynccontextmanager
    async def session(self, user: str | None) -> AsyncGenerator[None]:
        """Create a session in this context; refused if the user has as many as allowed."""
        most = self._limits().sessions
        if user is None or most is None:
            yield
            return
        async with self._turn_of(user):
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
        async with self._turn_of(user):
            usage = await self._rows.usage_of(user, day_of(self._clock()))
            if limits.runs is not None and usage.runs >= limits.runs:
                raise _refusal(f"{usage.runs} of {limits.runs} runs are active")
            left = None if limits.cost_usd_per_day is None else limits.cost_usd_per_day - usage.cost_usd
            if left is not None and left <= 0:
                spent = f"{usage.cost_usd:.2f} of {limits.cost_usd_per_day:.2f} USD are spent today"
                raise _refusal(f"{spent}; the limit is renewed at 00:00 UTC")
            yield left if left is not None and await session.backend.is_priced(session.place) else None

    async def cost_left(self, user: str | None) -> float | None:
        """What a queued run of a user may cost, if limited; the run before it counts already."""
        most = self._limits().cost_usd_per_day
        if user is None or most is None:
            return None
        return most - (await self._rows.usage_of(user, day_of(self._clock()))).cost_usd

    @asynccontextmanager
    async def _turn_of(self, user: str) -> AsyncGenerator[None]:
        lock = self._counting.get(user)
        if lock is None:
            lock = self._counting[user] = asyncio.Lock()
        async with lock, self.take_turn(user):
            yield


def _refusal(why: str) -> ProtocolError:
    return ProtocolError("OVERLOADED", f"your limit is reached: {why}", retryable=True)
