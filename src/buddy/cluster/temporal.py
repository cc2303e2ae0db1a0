"""Placement by Temporal: it says which node should take a session, and watches the node that has it.

Invariants:
- nodes, leases, timers and requests stay in the database of the log; a take is a statement there, under the epoch;
- a session with work has a workflow: started by the node that works on it, or by any that sees it needs a node;
- a node that living nodes hold for lost, or that cannot reach the log, ends its attempts, so that others are asked;
- while Temporal does not answer, PostgreSQL places; also what has waited for long, because an engine that answers may
  still give nobody anything to do.
"""

import asyncio
import math
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress

from msgspec import Struct
from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from buddy.cluster.contract import Beat, Load, NodeRecord, Taken
from buddy.cluster.postgres import PostgresPlacement
from buddy.cluster.temporal_engine import EngineRole, TemporalEngine
from buddy.cluster.temporal_workflow import Attempt, Outcome
from buddy.config.fleet import ClusterSettings
from buddy.log.contract import Lease
from buddy.protocol.node_requests import NodeState

ASK_AGAIN_SECONDS = 1.0
"""How long a session that was asked for is left alone."""
WATCH_AGAIN_SECONDS = 10.0
OVERDUE_LEASES = 3
"""What has waited for a node this long, in leases, is taken without Temporal."""


class Callbacks(Struct, frozen=True):
    """`room` is how many sessions this node may take now; `taken` is called with one that it just took."""

    room: Callable[[], int]
    taken: Callable[[str], None]


class TemporalPlacement:
    """Satisfies `contract.Placement`."""

    def __init__(
        self, postgres: PostgresPlacement, name: str, cluster: ClusterSettings, callbacks: Callbacks, version: str
    ) -> None:
        self._postgres = postgres
        self._name = name
        self._lease_seconds = cluster.lease_seconds
        self._callbacks = callbacks
        self._taken: list[Taken] = []
        self._working: frozenset[str] = frozenset()
        self._driven: set[str] = set()
        self._asked: dict[str, float] = {}
        self._beaten_at = time.monotonic()
        self._beaten = asyncio.Event()
        self._aside: set[asyncio.Task[None]] = set()
        self._versions: tuple[str, ...] = ()
        role = EngineRole(
            name=name,
            lease_seconds=cluster.lease_seconds,
            drive=self._drive,
            versions=lambda: self._versions,
            version=version,
        )
        self._engine = TemporalEngine(cluster.temporal, role)

    async def join(self) -> None:
        await self._postgres.join()
        self._engine.set_working(working=True)
        self._engine.start()

    async def beat(self, load: Load) -> Beat:
        beat = await self._postgres.beat(load)
        self._beaten_at = time.monotonic()
        self._working = load.working & beat.held.keys()
        beaten, self._beaten = self._beaten, asyncio.Event()
        beaten.set()
        self._engine.set_working(working=beat.state == "ready")
        for session_id in self._working - self._driven:
            if self._may_ask(session_id, WATCH_AGAIN_SECONDS):
                self._do_aside(self._have_watched(session_id))
        return beat

    async def take(self, limit: int) -> Sequence[Taken]:
        if not self._engine.is_reachable:
            return await self._postgres.take(limit)
        for session_id, number, user in await self._postgres.waiting(limit):
            if self._may_ask(session_id, ASK_AGAIN_SECONDS):
                self._do_aside(self._engine.ask(session_id, number, user=user))
        taken, self._taken = self._taken, []
        return [*taken, *await self._postgres.take(limit, unless_waited=OVERDUE_LEASES * self._lease_seconds)]

    async def acquire(self, session_id: str) -> Lease | None:
        return await self._postgres.acquire(session_id)

    async def release(self, lease: Lease, *, resume: bool, due: int | None) -> None:
        await self._postgres.release(lease, resume=resume, due=due)

    async def pin(self, lease: Lease) -> None:
        await self._postgres.pin(lease)

    async def pinned_to(self, session_id: str) -> tuple[str, bool] | None:
        return await self._postgres.pinned_to(session_id)

    async def nodes(self) -> list[NodeRecord]:
        nodes = await self._postgres.nodes()
        self._versions = tuple(node.version for node in nodes if node.worker and node.state == "ready")
        return nodes

    async def set_state(self, name: str, state: NodeState) -> bool:
        if name == self._name:
            self._engine.set_working(working=state == "ready")
        return await self._postgres.set_state(name, state)

    async def leave(self) -> None:
        self._beaten_at = -math.inf  # ends all attempts
        self._beaten.set()
        try:
            await self._postgres.leave()
        finally:
            for task in self._aside:
                task.cancel()
            await self._engine.close()

    # --- asking Temporal --------------------------------------------------------------------------------------------

    def _do_aside(self, work: Coroutine[None, None, None]) -> None:
        """A server that does not answer must delay nothing here."""
        task = asyncio.get_running_loop().create_task(work)
        self._aside.add(task)
        task.add_done_callback(self._aside.discard)

    async def _have_watched(self, session_id: str) -> None:
        place = await self._postgres.look(session_id)
        await self._engine.ask(session_id, place.attempt, node=self._name)

    def _may_ask(self, session_id: str, seconds: float) -> bool:
        """Whether it was not asked for lately."""
        now = time.monotonic()
        self._asked = {key: until for key, until in self._asked.items() if until > now}
        if session_id in self._asked:
            return False
        self._asked[session_id] = now + seconds
        return True

    # --- driving a session ------------------------------------------------------------------------------------------

    async def _drive(self, attempt: Attempt) -> Outcome:
        """Take a session that needs a node, and stay until its work has ended or another node has it."""
        session_id, number = attempt.session_id, attempt.number + activity.info().attempt
        place = await self._postgres.look(session_id)
        if place.holder is None and place.needs_node:
            await self._take(session_id, number)
        elif place.holder != self._name:
            return Outcome(number, place.holder)
        self._driven.add(session_id)
        try:
            await self._watch(session_id)
        finally:
            self._driven.discard(session_id)
        place = await self._postgres.look(session_id)
        if place.holder is None and place.needs_node:
            raise _try_elsewhere("the session was let go with work left")
        return Outcome(number, None if place.holder == self._name else place.holder)

    async def _take(self, session_id: str, number: int) -> None:
        if self._callbacks.room() <= len(self._taken):
            raise _try_elsewhere(f"no room on {self._name}")
        taken = await self._postgres.take_attempt(session_id, number)
        if taken is None:
            raise _try_elsewhere(f"{self._name} may not take it now")
        self._taken.append(taken)
        self._callbacks.taken(session_id)

    async def _watch(self, session_id: str) -> None:
        """Heartbeat while this node works on a session; what was just taken may be opening yet."""
        until = time.monotonic() + self._lease_seconds
        while session_id in self._working or time.monotonic() < until:
            activity.heartbeat()
            if time.monotonic() > self._beaten_at + self._lease_seconds:
                raise _try_elsewhere(f"{self._name} cannot reach the log")
            if session_id in self._working:
                until = -math.inf
            with suppress(TimeoutError):
                async with asyncio.timeout(self._lease_seconds / 4):
                    await self._beaten.wait()


def _try_elsewhere(reason: str) -> ApplicationError:
    """To return would end the workflow, although the session still needs a node."""
    return ApplicationError(reason, category=ApplicationErrorCategory.BENIGN)
