"""Makes a runtime on a shared log a node of its fleet."""

import asyncio
import logging

from msgspec.structs import replace

from buddy.cluster.contract import Placement
from buddy.cluster.fleet import Fleet, FleetListener, NodeRole
from buddy.cluster.held_sessions import HeldSessions
from buddy.cluster.leases import FleetLeases
from buddy.cluster.postgres import PostgresPlacement
from buddy.cluster.requests import RemoteRequests
from buddy.cluster.turns import FleetTurns
from buddy.config.fleet import ClusterSettings
from buddy.config.settings import Config
from buddy.daemon.forwarding import Forwarding
from buddy.daemon.runtime import Runtime
from buddy.errors import BuddyError, UserError
from buddy.log.owners import this_owner
from buddy.log.postgres.postgres import PostgresLog
from buddy.version import VERSION

log = logging.getLogger("buddy.fleet")

_KNOWN_TOKENS = "SELECT hash FROM tokens WHERE hash = ANY($1::text[])"


async def join_fleet(runtime: Runtime, shared: PostgresLog, config: Config, *, is_daemon: bool) -> None:
    """Without a daemon it only works on its own sessions, for as long as the command runs."""
    node = config.node if is_daemon else replace(config.node, gateway=False, worker=False)
    name, owner = runtime.operations.node, this_owner()
    placement = PostgresPlacement(shared, owner, name, node, config.cluster, runtime.limits.user.runs)
    requests = RemoteRequests(shared, placement, owner, round(config.cluster.lease_seconds * 1000))
    forwarding = Forwarding(runtime, placement, requests)
    held = HeldSessions(runtime.sessions)
    most = node.max_runs or runtime.limits.active_runs
    role = NodeRole(
        name=name,
        is_daemon=is_daemon,
        is_worker=node.worker or not is_daemon,
        capacity=lambda: most - held.runs(),
        lease_seconds=config.cluster.lease_seconds,
    )
    chosen = _choose_placement(runtime, placement, config.cluster, role)
    turns = FleetTurns(requests.channel)
    fleet = Fleet(role, chosen, requests, held, forwarding.serve, _listener(runtime, shared))
    forwarding.fleet = runtime.fleet = fleet
    runtime.admission.take_turn = turns.take
    leases = FleetLeases(chosen, name, lambda: fleet.may_take)
    runtime.sessions.services = replace(
        runtime.sessions.services, leases=leases, node=name, parks=True, elsewhere=forwarding
    )
    runtime.dispatcher.remote = forwarding
    shared.hints.subscribe(fleet.on_hint)
    shared.hints.on_deleted = Forgetting(runtime).forget_soon
    await fleet.start()


def _choose_placement(
    runtime: Runtime, postgres: PostgresPlacement, cluster: ClusterSettings, role: NodeRole
) -> Placement:
    """Temporal places only daemons that work; others beat, ask and forward all the same."""
    if cluster.placement == "postgres" or not (role.is_daemon and role.is_worker):
        return postgres
    try:
        from buddy.cluster.temporal import Callbacks, TemporalPlacement
    except ModuleNotFoundError as error:
        if error.name is None or not error.name.startswith("temporalio"):
            raise
        hint = "pip install '.[temporal]' in Buddy's clone"
        message = "placement = \"temporal\" needs the extra 'temporal', which is not installed"
        raise UserError(message, hint=hint) from error

    def take_soon(session_id: str) -> None:
        if runtime.fleet is not None:
            runtime.fleet.on_hint(session_id, is_inbox=True)

    def room() -> int:
        return 0 if runtime.fleet is None else runtime.fleet.room()

    return TemporalPlacement(postgres, role.name, cluster, Callbacks(room, take_soon), VERSION)


class Forgetting:
    """What other nodes deleted is removed from what this one keeps by itself: memory, checkpoints, keys."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._tasks: set[asyncio.Task[None]] = set()

    def forget_soon(self, session_id: str) -> None:
        task = asyncio.get_running_loop().create_task(self._forget(session_id))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _forget(self, session_id: str) -> None:
        try:
            await self._runtime.forget(session_id)
        except BuddyError as error:
            log.warning("%s was deleted, and something of it is still here: %s", session_id, error)


def _listener(runtime: Runtime, shared: PostgresLog) -> FleetListener:
    def took(reason: str) -> None:
        if runtime.operations.metrics is not None:
            runtime.operations.metrics.count_take(reason)

    def queued(number: int) -> None:
        if runtime.operations.metrics is not None:
            runtime.operations.metrics.gauges.queue = number

    async def disconnect_revoked() -> None:
        """A token may have been revoked on another node."""
        used = {token for peer in list(runtime.connections.values()) for token in peer.roles.token_hashes}
        if used:
            known = {row[0] for row in await shared.reads.fetch(_KNOWN_TOKENS, list(used))}
            for token in used - known:
                runtime.disconnect_token(token)

    return FleetListener(took, queued, runtime.session_list.note, disconnect_revoked)
