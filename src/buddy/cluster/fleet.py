"""This node of a fleet: it beats, takes sessions that need a node, serves what others forward, and hands over.

Invariants: nothing but the beat itself delays the next one; a session that the log says is another's is dropped here at
the next beat; a node that drains takes nothing more; whatever fails is tried again at the next beat.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress

from msgspec import Struct

from buddy.cluster.contract import Beat, NodeRecord, Placement, Taken
from buddy.cluster.held_sessions import HeldSessions
from buddy.cluster.pace import TakePace
from buddy.cluster.requests import ANY_NODE, RemoteRequests, Serve
from buddy.errors import BuddyError
from buddy.log.contract import Lease
from buddy.protocol.node_requests import NodeState
from buddy.sessions.pinning import is_on_this_machine
from buddy.sessions.session import Session

BEATS_PER_LEASE = 4
POLLS_PER_LEASE = 12
HAND_OVER_SECONDS = 5.0
"""How long a call that changes something may go on when its session is handed over."""
CLOSE_SECONDS = 2.0

log = logging.getLogger("buddy.fleet")


def ignore(_: object) -> None:
    """Nobody listens."""


async def do_nothing() -> None:
    """Nothing is checked."""


class FleetListener(Struct, frozen=True):
    """Who learns of what happens: `took` with a reason, `queued` with a number, `hinted` with a session's id.

    `beaten` is awaited after a beat; if it takes long, not after each.
    """

    took: Callable[[str], None] = ignore
    queued: Callable[[int], None] = ignore
    hinted: Callable[[str], None] = ignore
    beaten: Callable[[], Awaitable[None]] = do_nothing


class NodeRole(Struct, frozen=True, kw_only=True):
    """What this node does: a worker has sessions, and if it is a daemon, takes those that need a node.

    `capacity` is how many more runs it may have.
    """

    name: str
    is_daemon: bool
    is_worker: bool
    capacity: Callable[[], int]
    lease_seconds: float


class Fleet:
    """`serve` answers a request that another node received."""

    def __init__(
        self,
        role: NodeRole,
        placement: Placement,
        requests: RemoteRequests,
        held: HeldSessions,
        serve: Serve,
        listener: FleetListener,
    ) -> None:
        self.name = role.name
        self.state: NodeState = "ready"
        self.known: list[NodeRecord] = []
        self.requests = requests
        self._role = role
        self._placement = placement
        self._held = held
        self._serve = serve
        self._listener = listener
        self._tasks: list[asyncio.Task[None]] = []
        self._pace = TakePace(role.lease_seconds / 2)
        self._opening: set[asyncio.Task[None]] = set()
        self._aside: set[asyncio.Task[None]] = set()
        self._after_beat: asyncio.Task[None] | None = None
        self._work_news, self._beat_news = asyncio.Event(), asyncio.Event()
        self._draining: asyncio.Task[None] | None = None

    @property
    def may_take(self) -> bool:
        """Whether this node may have more sessions."""
        return self._role.is_worker and self.state == "ready"

    def room(self) -> int:
        """How many sessions this node may take now."""
        return self._pace.limit(self._role.capacity(), len(self._opening)) if self.may_take else 0

    async def start(self) -> None:
        """Become a node."""
        await self._placement.join()
        self.known = await self._placement.nodes()
        loop = asyncio.get_running_loop()
        self._tasks = [
            loop.create_task(_repeat(self._beat, self._role.lease_seconds / BEATS_PER_LEASE, self._beat_news)),
            loop.create_task(_repeat(self._work, self._role.lease_seconds / POLLS_PER_LEASE, self._work_news)),
        ]

    def on_hint(self, session_id: str, is_inbox: bool) -> None:
        """Something happened on some node; it may be for us."""
        self._listener.hinted(session_id)
        if is_inbox:
            self.requests.on_hint()
            self._work_news.set()
        if session_id == ANY_NODE:
            self._beat_news.set()

    async def nodes(self) -> list[NodeRecord]:
        self.known = await self._placement.nodes()
        return self.known

    async def drain_node(self, name: str) -> bool:
        """Ask a node, perhaps this one, to hand over its sessions and take no more; False if there is none."""
        is_known = await self._placement.set_state(name, "draining")
        if is_known and name == self.name:
            self._drain_soon()
        self.requests.hint(ANY_NODE)
        return is_known

    async def give_away(self, session: Session) -> bool:
        """Let another node have an idle session, because this one has no room for its run; False if none can."""
        started = session.fold.started
        if session.runs.is_busy or (started is not None and is_on_this_machine(started)):
            return False
        nodes = await self.nodes()  # one may have joined since the last beat
        if session.runs.is_busy or not any(_takes_sessions(one) for one in nodes if one.name != self.name):
            return False
        await self._held.hand_over(session, 0)
        return True

    async def hand_over(self) -> None:
        """Have other nodes continue what is open here; what a command runs ends with it."""
        if self._role.is_daemon:
            self._drain_soon()
        if self._draining is not None:
            await asyncio.wait([self._draining], timeout=HAND_OVER_SECONDS + CLOSE_SECONDS)

    async def close(self) -> None:
        """Be gone for the others at once."""
        tasks = [*self._tasks, *self._aside]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self.requests.close()
        with suppress(BuddyError, TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._placement.leave()

    # --- beating ----------------------------------------------------------------------------------------------------

    async def _beat(self) -> None:
        before = self._held.epochs()
        beat = await self._placement.beat(self._held.load())
        self._pace.note_beat()
        self._listener.queued(beat.queue)
        if beat.state == "draining":
            self._drain_soon()
        elif beat.state == "ready" and self.state == "drained":
            self.state = "ready"
            log.info("takes sessions again")
        self._drop_lost(before, beat)
        leaked = self._held.count_leaked(beat.held)
        if self._after_beat is None or self._after_beat.done():
            self._after_beat = self._do_aside(self._follow_beat(leaked))

    def _do_aside(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        """Do something that may take long: the others count a node that does not beat as lost."""
        task = asyncio.get_running_loop().create_task(_attempt(work))
        self._aside.add(task)
        task.add_done_callback(self._aside.discard)
        return task

    async def _follow_beat(self, leaked: list[Lease]) -> None:
        for lease in leaked:
            log.warning("%s is held for nothing; letting it go", lease.session_id)
            await self._placement.release(lease, resume=True, due=None)
        self.known = await self._placement.nodes()
        await self._listener.beaten()

    def _drop_lost(self, before: dict[str, int], beat: Beat) -> None:
        """Stop working on what another node has taken since."""
        for session_id, epoch in before.items():
            if beat.held.get(session_id) != epoch and self._held.epochs().get(session_id) == epoch:
                log.warning("%s was taken by another node", session_id)
                self._do_aside(self._held.drop(session_id))

    # --- working ----------------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        await self.requests.serve_waiting(self._serve)
        room = self.room()
        if room <= 0:
            return
        if not self._role.is_daemon:
            await self._take_wanted()
            return
        found = await self._placement.take(room)
        for taken in found:
            self._open_soon(taken)
        if not found and not self._opening:
            self._pace.note_nothing_waits()

    async def _take_wanted(self) -> None:
        """A command takes only what it asks for itself, once the process that had it is gone."""
        for session_id in self.requests.wanted():
            is_ours = self._held.knows(session_id) or self._held.leaks(session_id)
            lease = None if is_ours else await self._placement.acquire(session_id)
            if lease is not None:
                self._open_soon(Taken(lease, "lost_node"))

    def _open_soon(self, taken: Taken) -> None:
        self._listener.took(taken.reason)
        task = asyncio.get_running_loop().create_task(self._open(taken))
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)

    async def _open(self, taken: Taken) -> None:
        session_id = taken.lease.session_id
        try:
            await self._held.adopt(taken.lease)
        except BuddyError as error:
            log.warning("%s was taken and cannot be opened: %s", session_id, error)
        else:
            log.info("took %s (%s)", session_id, taken.reason)
            self._pace.note_opened()
            self._work_news.set()  # requests may wait for it

    # --- handing over -----------------------------------------------------------------------------------------------

    def _drain_soon(self) -> None:
        """A node that is drained already says so again."""
        if self.state != "draining":
            self.state = "draining"
            self._draining = asyncio.get_running_loop().create_task(self._drain())

    async def _drain(self) -> None:
        log.info("handing over %d sessions", len(self._held.epochs()))
        await self._placement.set_state(self.name, "draining")
        if self._opening:
            await asyncio.wait(self._opening)
        await self._held.hand_over_all(HAND_OVER_SECONDS)
        await self._placement.beat(self._held.load())
        await self._placement.set_state(self.name, "drained")
        self.state = "drained"
        log.info("handed over")


def _takes_sessions(node: NodeRecord) -> bool:
    return node.worker and node.state == "ready"


async def _repeat(work: Callable[[], Awaitable[None]], seconds: float, news: asyncio.Event) -> None:
    """Work regularly; after news, at once."""
    while True:
        news.clear()
        await _attempt(work())
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await news.wait()


async def _attempt(work: Awaitable[None]) -> None:
    """Work, and report what fails. A mistake must not end the loop: a node that stops beating loses its sessions."""
    try:
        await work
    except BuddyError as error:
        log.warning("trying again: %s", error)
    except Exception:
        log.exception("trying again after an error in Buddy")
