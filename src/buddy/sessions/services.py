"""What every session of a process gets from outside."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from buddy.approvals.deadlines import Moment
from buddy.backends.hooks import NO_HOOKS, Hooks
from buddy.checkpoints.checkpoints import Checkpoints
from buddy.log.contract import Lease, Log
from buddy.protocol.envelopes import Event
from buddy.protocol.ids import Ids
from buddy.protocol.shapes import BootTime, Shape
from buddy.scrub import Scrubber
from buddy.sessions.journal import MERGE_SECONDS, Journal
from buddy.sessions.state import SessionFold

if TYPE_CHECKING:
    from buddy.approvals.permissions import Permissions
    from buddy.tools.contract import Place
    from buddy.tools.skills.expansion import Expansion


def without_rules(root: str) -> "Permissions":
    from buddy.approvals.permissions import Permissions

    return Permissions(root)


class Expand(Protocol):
    async def __call__(self, text: str, place: "Place", *, runs_commands: bool) -> "Expansion | None":
        """What a message that starts with a slash stands for; None if it is just a message."""
        ...


def without_turn(user: str | None) -> AbstractAsyncContextManager[None]:
    del user
    return nullcontext()


def without_hooks(session_id: str, place: "Place") -> Hooks:
    del session_id, place
    return NO_HOOKS


class Parent(Protocol):
    """A session whose run may have sub-agents."""

    session_id: str
    fold: SessionFold
    journal: Journal

    @property
    def broken(self) -> bool: ...


async def nothing_to_stop(_session: object) -> None:
    """Where sessions have no sub-agents."""


class DayLimit(Protocol):
    """Limits the cost of a day, of all sessions together or of each user."""

    def add(self, user: str | None, cost_usd: float, ts: int) -> None:
        """A user's session has cost this much; `ts` decides the day."""
        ...

    def check(self, user: str | None) -> None:
        """Before each turn: `BudgetExceeded` if a limit is reached."""
        ...

    async def refresh(self, user: str | None) -> None:
        """Learn what was spent elsewhere."""
        ...


class SessionLeases(Protocol):
    """Who may take a session, where several processes work on one log."""

    async def acquire(self, session_id: str) -> Lease | None: ...

    async def release(self, lease: Lease, *, resume: bool, due: int | None) -> None: ...

    async def check_place(self, session_id: str) -> None:
        """Refuse to work on a session that is bound to another process's machine."""
        ...

    async def has_other_machine(self, session_id: str) -> bool:
        """Whether the session is bound to the machine of another process that lives."""
        ...

    async def pin(self, lease: Lease) -> None:
        """The session works on this machine, so no other process may take it."""
        ...


class SessionsElsewhere(Protocol):
    """The sessions that other processes on the same log have."""

    async def ask(self, session_id: str, kind: str, payload: Shape, by: str) -> None:
        """Have a request served where the session is; ProtocolError if it is refused there."""
        ...


class SessionServices(Struct, frozen=True):
    """The same for all sessions. `listeners` receive what was committed, in order; they may only note it.

    `approval_timeout` is in seconds; None leaves it to the session's mode. `parks`: runs that wait for a decision are
    closed meanwhile, rather than kept in memory or cancelled by a clean stop. `expiry_ends_run` is false in the
    replay of what an earlier version recorded. `node` is the name of this one, where several share a log, and
    `leases` decides there who may take a session; without it, the log does. `stop_children` ends the sub-agents of a
    run that ends. `day_limit` is None where no day's cost is limited. The row of a session is created in the context
    `admit_session`, which may refuse it. `running` has whoever performs a run now.
    """

    log: Log
    clock: Callable[[], int]
    ids: Ids
    scrubber: Scrubber
    approval_timeout: float | None = None
    expiry_ends_run: bool = True
    parks: bool = False
    max_turns: int = 50
    permissions: "Callable[[str], Permissions]" = without_rules
    hooks: "Callable[[str, Place], Hooks]" = without_hooks
    expand: "Expand | None" = None
    listeners: tuple[Callable[[Sequence[Event]], None], ...] = ()
    merge_seconds: float = MERGE_SECONDS
    boot_clock: Callable[[], BootTime | None] = lambda: None
    node: str | None = None
    checkpoints: Checkpoints | None = None
    stop_children: Callable[[Parent], Awaitable[None]] = nothing_to_stop
    leases: SessionLeases | None = None
    elsewhere: SessionsElsewhere | None = None
    day_limit: DayLimit | None = None
    admit_session: Callable[[str | None], AbstractAsyncContextManager[None]] = without_turn
    running: set[object] = set()

    async def acquire(self, session_id: str, owner: str) -> Lease | None:
        """The right to write a session's log; None while another process has it."""
        if self.leases is None:
            return await self.log.acquire(session_id, owner)
        return await self.leases.acquire(session_id)

    async def release(self, lease: Lease, *, resume: bool = False, due: int | None = None) -> None:
        """Let a session go; another process should take it at once (`resume`), or at a time (`due`)."""
        if self.leases is None:
            await self.log.release(lease)
        else:
            await self.leases.release(lease, resume=resume, due=due)

    async def learn_cost(self, user: str | None) -> None:
        """Before a run that was accepted earlier, by whichever process."""
        if self.day_limit is not None:
            await self.day_limit.refresh(user)

    def check_of_day(self, user: str | None) -> Callable[[], None] | None:
        """What a user's run calls before each turn."""
        return None if self.day_limit is None else partial(self.day_limit.check, user)

    def now(self) -> Moment:
        """The time on both clocks, to set deadlines and to compare with them."""
        return Moment(self.clock(), self.boot_clock())
