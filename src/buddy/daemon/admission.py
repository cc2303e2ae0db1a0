"""What each user may have at once, sessions, runs, and cost per day; and what a day may cost in all.

Invariants: the numbers are those of the log, so they hold over restarts and over all nodes; two requests of one user
are counted one after the other; a run gets no larger cost limit than what is left of the day; nobody waits long for
the turn to count: what takes longer goes on without it, and counts as if it had been done.
"""

import asyncio
from collections import Counter
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


LONGEST_TURN = 10.0
LONGEST_WAIT = 15.0


class Admission:
    """`limits` is read at every request, because the configuration may change."""

    def __init__(self, limits: Callable[[], Limits], rows: SessionRows, clock: Callable[[], int]) -> None:
        self._limits = limits
        self._rows = rows
        self._clock = clock
        self._counting: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._overdue: Counter[str] = Counter()
        """What takes so long that its turn ended before it: it counts, and may not be in the log yet."""
        self.take_turn: Callable[[str], AbstractAsyncContextManager[None]] = lambda _: nullcontext()
        """Where several nodes share the log, they count one after the other, too."""

    @asynccontextmanager
    async def session(self, user: str | None) -> AsyncGenerator[None]:
        """Create the row of a session in this context; refused if the user has as many as allowed."""
        if user is None or self._limits().user.sessions is None:
            yield
            return
        async with self._turn_of(user):
            await self.check_session(user)
            yield

    async def check_session(self, user: str | None) -> None:
        """Refuse early what would be refused after it was prepared."""
        most = self._limits().user.sessions
        if user is None or most is None:
            return
        have = (await self._rows.usage_of(user, 0)).sessions
        if have >= most:
            raise _refusal(f"{have} of {most} sessions exist; delete one first")

    @asynccontextmanager
    async def run(self, session: Session) -> AsyncGenerator[float | None]:
        """Start a run in this context; refused if a limit is reached. What it may cost, if limited."""
        if session.fold.run is not None:
            yield None
            return
        # Asked before it is this run's turn: to answer, an agent may have to be started.
        is_priced = self._limits_cost(session.user) and await session.backend.is_priced(session.place)
        async with AsyncExitStack() as stack:
            left = [await self._admit_cost(stack), await self._admit_user(stack, session.user)]
            known = [usd for usd in left if usd is not None]
            yield min(known) if known and is_priced else None

    def _limits_cost(self, user: str | None) -> bool:
        limits = self._limits()
        return limits.cost_usd_per_day is not None or (user is not None and limits.user.cost_usd_per_day is not None)

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
        runs = usage.runs + self._overdue[user]
        if limits.runs is not None and runs >= limits.runs:
            raise _refusal(f"{runs} of {limits.runs} runs are active")
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
        await _acquire(lock)
        turn = _Turn(lock)
        try:
            async with self.take_turn(user):
                ending = asyncio.get_running_loop().call_later(LONGEST_TURN, self._end_early, user, turn)
                try:
                    yield
                finally:
                    ending.cancel()
        finally:
            if turn.has_ended:
                self._overdue[user] -= 1
            turn.end()

    def _end_early(self, user: str, turn: "_Turn") -> None:
        self._overdue[user] += 1
        turn.end()


class _Turn:
    """Ends once."""

    def __init__(self, lock: asyncio.Lock) -> None:
        self._lock = lock
        self.has_ended = False

    def end(self) -> None:
        if not self.has_ended:
            self.has_ended = True
            self._lock.release()


async def _acquire(lock: asyncio.Lock) -> None:
    try:
        async with asyncio.timeout(LONGEST_WAIT):
            await lock.acquire()
    except TimeoutError:
        message = "other requests of yours are not done yet; try again"
        raise ProtocolError("OVERLOADED", message, retryable=True) from None


def _refusal(why: str) -> ProtocolError:
    return ProtocolError("OVERLOADED", f"your limit is reached: {why}", retryable=True)


def _spent(spent: float, most: float) -> str:
    return f"{spent:.2f} of {most:.2f} USD are spent today; the limit is renewed at 00:00 UTC"
