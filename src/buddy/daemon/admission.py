"""What each user may have at once, sessions, runs, and cost per day; and what a day may cost in all.

Invariants: the numbers are those of the log, so they hold over restarts and over all nodes; two requests of one user
are counted one after the other; a run gets no larger cost limit than what is left of the day.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from weakref import WeakValueDictionary

from buddy.daemon.limits import Limits, UserLimits
from buddy.errors import ProtocolError
from buddy.log.contract import SessionRows
from buddy.sessions.listing import day_of
from buddy.sessions.session import Session

EVERYBODY = ""
"""Those who start runs under a limit for all count one after the other; no user has this name."""


class Admission:
    """`limits` is read at every request, because the configuration may change."""

    def __init__(self, limits: Callable[[], Limits], rows: SessionRows, clock: Callable[[], int]) -> None:
        self._limits = limits
        self._rows = rows
        self._clock = clock
        self._counting: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self.take_turn: Callable[[str], AbstractAsyncContextManager[None]] = lambda _: nullcontext()
        """Where several nodes share the log, they count one after the other, too."""

    @asynccontextmanager
    async def session(self, user: str | None) -> AsyncGenerator[None]:
        """Create a session in this context; refused if the user has as many as allowed."""
        most = self._limits().user.sessions
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
        """Start a run in this context; refused if a limit is reached. What it may cost, if limited."""
        if session.fold.run is not None:
            yield None
            return
        async with AsyncExitStack() as stack:
            left = [await self._admit_cost(stack), await self._admit_user(stack, session.user)]
            known = [usd for usd in left if usd is not None]
            yield min(known) if known and await session.backend.is_priced(session.place) else None

    async def _admit_cost(self, stack: AsyncExitStack) -> float | None:
        """What is left of the day for everybody together, if limited."""
        most = self._limits().cost_usd_per_day
        if most is None:
            return None
        await stack.enter_async_context(self._turn_of(EVERYBODY))
        spent = await self.cost_today()
        if spent >= most:
            raise ProtocolError(
                "OVERLOADED", f"the limit of this daemon is reached: {_spent(spent, most)}", retryable=True
            )
        return most - spent

    async def _admit_user(self, stack: AsyncExitStack, user: str | None) -> float | None:
        limits = self._limits().user
        if user is None or limits == UserLimits(sessions=limits.sessions):
            return None
        await stack.enter_async_context(self._turn_of(user))
        usage = await self._rows.usage_of(user, day_of(self._clock()))
        if limits.runs is not None and usage.runs >= limits.runs:
            raise _refusal(f"{usage.runs} of {limits.runs} runs are active")
        most = limits.cost_usd_per_day
        if most is not None and usage.cost_usd >= most:
            raise _refusal(_spent(usage.cost_usd, most))
        return None if most is None else most - usage.cost_usd

    async def cost_today(self) -> float:
        """What all sessions have cost since midnight, UTC."""
        return await self._rows.cost_of(day_of(self._clock()))

    async def cost_left(self, user: str | None) -> float | None:
        """What a queued run of a user may cost, if limited; the run before it counts already."""
        limits = self._limits()
        left: list[float] = []
        if limits.cost_usd_per_day is not None:
            left.append(limits.cost_usd_per_day - await self.cost_today())
        if user is not None and limits.user.cost_usd_per_day is not None:
            usage = await self._rows.usage_of(user, day_of(self._clock()))
            left.append(limits.user.cost_usd_per_day - usage.cost_usd)
        return min(left, default=None)

    @asynccontextmanager
    async def _turn_of(self, user: str) -> AsyncGenerator[None]:
        lock = self._counting.get(user)
        if lock is None:
            lock = self._counting[user] = asyncio.Lock()
        async with lock, self.take_turn(user):
            yield


def _refusal(why: str) -> ProtocolError:
    return ProtocolError("OVERLOADED", f"your limit is reached: {why}", retryable=True)


def _spent(spent: float, most: float) -> str:
    return f"{spent:.2f} of {most:.2f} USD are spent today; the limit is renewed at 00:00 UTC"
