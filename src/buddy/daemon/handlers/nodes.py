"""Requests about the nodes of a fleet. A daemon with a log of its own is a fleet of one."""

from collections.abc import Callable

from buddy.daemon.connection import PeerConnection
from buddy.daemon.dispatch import Handlers, on_runtime
from buddy.daemon.handlers.host import Host
from buddy.errors import ProtocolError
from buddy.protocol import node_requests as ask
from buddy.protocol.requests import AcceptedReply
from buddy.protocol.shapes import Shape


class NodeRequests:
    def __init__(self, clock: Callable[[], int], host: Host) -> None:
        self._clock = clock
        self._host = host

    def handlers(self) -> Handlers:
        return {
            "list_nodes": on_runtime(ask.ListNodes, self.list_nodes),
            "drain_node": on_runtime(ask.DrainNode, self.drain_node),
        }

    async def list_nodes(self, _peer: PeerConnection, _request: ask.ListNodes) -> Shape:
        fleet = self._host.fleet
        if fleet is None:
            status = self._host.status()
            own = ask.NodeInfo(
                self._host.operations.node, "ready", status.version, status.runs, status.sessions, self._clock()
            )
            return ask.ListNodesReply((own,))
        return ask.ListNodesReply(tuple(record.info() for record in await fleet.nodes()))

    async def drain_node(self, _peer: PeerConnection, request: ask.DrainNode) -> Shape:
        fleet = self._host.fleet
        if fleet is None:
            raise ProtocolError(
                "INVALID_REQUEST", "this daemon shares its log with no other, so nobody can take its sessions"
            )
        if not await fleet.drain_node(request.node):
            living = ", ".join(record.name for record in fleet.known if record.state in ("ready", "draining"))
            raise ProtocolError("INVALID_REQUEST", f"no node {request.node[:80]!r}. Available: {living}")
        return AcceptedReply(True)
