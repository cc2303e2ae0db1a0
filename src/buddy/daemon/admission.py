"""What each user may have at once, sessions and runs; no run is admitted on a day that may cost no more.

Invariants: the numbers are those of the log, so they hold over restarts and over all nodes; two requests of one user
are counted one after the other; nobody waits long for the turn to count: what takes longer goes on without it, and
counts as if it had been done.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from weakref import WeakValueDictionary

from buddy.daemon.day_costs import make_day_costs
from buddy.daemon.limits import Limits
from buddy.errors import ProtocolError
from buddy.log.contract import SessionRows
from buddy.sessions.listing import day_of
from buddy.sessions.session import Session

LONGEST_TURN = 10.0
LONGEST_WAIT = 15.0


class Admission:
    """`day_costs` is None where no day's cost is limited."""

    def __init__(self, limits: Limits, rows: SessionRows, clock: Callable[[], int]) -> None:
        self.day_costs = make_day_costs(limits, rows, clock)
        self.cost_usd_per_day = limits.cost_usd_per_day
        self._limits = limits.user
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
        if user is None or self._limits.sessions is None:
            yield
            return
        async with self._turn_of(user):
            await self.check_session(user)
            yield

    async def check_session(self, user: str | None) -> None:
        """Refuse early what would be refused after it was prepared."""
        most = self._limits.sessions
        if user is None or most is None:
            return
        have = (await self._rows.usage_of(user, 0)).sessions
        if have >= most:
            raise _refusal(f"{have} of {most} sessions exist; delete one first")

    @asynccontextmanager
    async def run(self, session: Session) -> AsyncGenerator[None]:
        """Start a run in this context; refused if a limit is reached."""
        if session.fold.run is not None:
            yield
            return
        await self.check_day(session.user)
        if session.user is None or self._limits.runs is None:
            yield
            return
        async with self._turn_of(session.user):
            await self._check_runs(session.user, self._limits.runs)
            yield

    async def check_day(self, user: str | None) -> None:
        """Refuse to ask a model for this user if the day has cost what it may."""
        if self.day_costs is not None:
            await self.day_costs.admit(user)

    async def _check_runs(self, user: str, most: int) -> None:
        usage = await self._rows.usage_of(user, day_of(self._clock()))
        runs = usage.runs + self._overdue[user]
        if runs >= most:
            raise _refusal(f"{runs} of {most} runs are active")

    async def cost_today(self) -> float:
        """What all sessions have cost since midnight, UTC."""
        return await self._rows.cost_of(day_of(self._clock()))

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
