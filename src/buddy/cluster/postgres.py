"""Placement in PostgreSQL, in the database of the log: leases with a TTL, heartbeats, timers, a fair take."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from msgspec import Struct

from buddy.cluster import statements as sql
from buddy.cluster.contract import Beat, Load, NodeRecord, Taken
from buddy.config.fleet import ClusterSettings, NodeSettings
from buddy.errors import BuddyError, UserError
from buddy.log.contract import Lease
from buddy.log.owners import is_running
from buddy.log.postgres.connections import Channel, Lost
from buddy.log.postgres.postgres import PostgresLog
from buddy.log.rows import no_session
from buddy.protocol.node_requests import NodeState
from buddy.version import VERSION


class Whereabouts(Struct, frozen=True):
    """Where a session is: the number of the last attempt to take it, the living node that has it, if it needs one."""

    attempt: int = 0
    holder: str | None = None
    needs_node: bool | None = False


class PostgresPlacement:
    """Satisfies `contract.Placement`. `owner` is this process in leases, `name` this node for people."""

    def __init__(
        self,
        log: PostgresLog,
        owner: str,
        name: str,
        node: NodeSettings,
        cluster: ClusterSettings,
        user_runs: int | None = None,
    ) -> None:
        self._log = log
        self._owner = owner
        self._name = name
        self._node = node
        self._ttl = round(cluster.lease_seconds * 1000)
        self._lost_ms = round(cluster.lost_node_seconds * 1000) if cluster.lost_node == "fail" else None
        self._user_runs = user_runs
        self._beats = Channel(log.server, durable=False, on_closed=self._beat_again)
        self._load = Load()
        self._beating: asyncio.Task[None] | None = None
        self._has_left = False
        self._takes = Channel(log.server)
        self._wakes: dict[str, int] = {}

    async def join(self) -> None:
        is_daemon = self._node.gateway or self._node.worker
        found = await self._takes.repeat(sql.JOIN_CHECK, self._name, self._ttl, self._owner) if is_daemon else []
        living = [owner for owner, was_seen in found if was_seen and is_running(owner) is not False]
        if living:
            raise UserError(
                f"the node name {self._name!r} is in use", hint="set another name in [node], or stop the other daemon"
            )
        await self._takes.repeat(sql.REMOVE, [owner for owner, _ in found])
        await self.beat(Load())

    async def beat(self, load: Load) -> Beat:
        node, self._load = self._node, load
        described = (self._name, VERSION, node.gateway, node.worker, list(node.label_list), load.runs, load.sessions)
        ((state, held, queue),) = await self._beats.repeat(sql.BEAT, self._owner, self._ttl, *described)
        pairs = (one.rpartition(":") for one in held)
        return Beat(state, {session_id: int(epoch) for session_id, _, epoch in pairs}, queue)

    def _beat_again(self) -> None:
        """The connection was closed: beat with a new one before others think that this process has ended."""
        is_beating = self._beating is not None and not self._beating.done()
        if not self._has_left and not is_beating:
            self._beating = asyncio.get_running_loop().create_task(self._beat_quietly())

    async def _beat_quietly(self) -> None:
        with suppress(BuddyError):  # the next beat reports it
            await self.beat(self._load)

    async def take(self, limit: int, *, unless_waited: float | None = None) -> Sequence[Taken]:
        """With `unless_waited`, only what belongs to this node, or has waited for that long, in seconds."""
        waited = None if unless_waited is None else round(unless_waited * 1000)
        arguments = (self._owner, self._ttl, self._lost_ms, limit, self._user_runs, waited)
        try:
            rows = await self._takes.fetch(sql.TAKE, *arguments)
        except Lost:
            return ()  # what it took is in the answer to the next heartbeat
        return [
            Taken(Lease(session_id, epoch, self._owner), "due" if lost is None else "lost_node")
            for session_id, epoch, lost in rows
        ]

    async def waiting(self, limit: int) -> list[tuple[str, int, str | None]]:
        """Sessions that need a node and belong to none, with the number of the last attempt, and their user."""
        arguments = (self._owner, self._ttl, self._lost_ms, limit, self._user_runs)
        return [
            (session_id, attempt, user)
            for session_id, attempt, user in await self._takes.repeat(sql.WAITING, *arguments)
        ]

    async def look(self, session_id: str) -> Whereabouts:
        rows = await self._takes.repeat(sql.LOOK, self._owner, self._ttl, session_id)
        return Whereabouts(*rows[0]) if rows else Whereabouts()

    async def take_attempt(self, session_id: str, number: int) -> Taken | None:
        """Take one session in an attempt that Temporal started.

        None if it is taken, a later attempt was made, or its user has as many runs as allowed.
        """
        arguments = (self._owner, self._ttl, self._lost_ms, session_id, self._user_runs, number)
        try:
            rows = await self._takes.fetch(sql.TAKE_ATTEMPT, *arguments)
        except Lost:
            return None  # as with `take`
        if not rows:
            return None
        return Taken(Lease(session_id, rows[0][0], self._owner), "due" if rows[0][1] is None else "lost_node")

    async def acquire(self, session_id: str) -> Lease | None:
        rows = await self._takes.repeat(sql.ACQUIRE, self._owner, self._ttl, self._lost_ms, session_id)
        if rows:
            return Lease(session_id, rows[0][0], self._owner)
        if not await self._takes.repeat(sql.EXISTS, session_id):
            raise no_session(session_id)
        return None

    async def release(self, lease: Lease, *, resume: bool, due: int | None) -> None:
        wakes = self._wakes.pop(lease.session_id, None)
        await self._takes.repeat(sql.RELEASE, lease.session_id, lease.epoch, wakes, resume, due)
        self._log.hints.woken(lease.session_id)

    async def pin(self, lease: Lease) -> None:
        await self._takes.repeat(sql.PIN, lease.session_id, lease.epoch, self._name)

    async def nodes(self) -> list[NodeRecord]:
        return list(map(_node_of, await self._log.reads.fetch(sql.NODES, self._ttl)))

    async def set_state(self, name: str, state: NodeState) -> bool:
        return bool(await self._takes.repeat(sql.SET_STATE, name, state, self._ttl))

    async def pinned_to(self, session_id: str) -> tuple[str, bool] | None:
        """The node that a session belongs to, and whether it lives."""
        found = await self._log.reads.fetch(sql.PINNED, session_id, self._ttl)
        return (found[0][0], found[0][1]) if found and found[0][0] is not None else None

    async def leave(self) -> None:
        """Be lost at once, and give the connections back."""
        self._has_left = True
        if self._beating is not None:
            self._beating.cancel()
            await asyncio.wait([self._beating])
        await self._takes.repeat(sql.LEAVE, self._owner, self._ttl)
        await self._beats.close()
        await self._takes.close()

    def looked(self, wakes: dict[str, int]) -> None:
        """The requests of these sessions were read when they had been woken this often."""
        self._wakes.update(wakes)


def _node_of(row: Any) -> NodeRecord:
    owner, name, version, state, gateway, worker, labels, *rest = row
    return NodeRecord(owner, name, version, state, gateway, worker, tuple(labels), *rest)
