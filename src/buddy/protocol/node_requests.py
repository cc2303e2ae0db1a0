"""Requests about the nodes of a fleet: the daemons that share one log."""

from typing import Literal

from buddy.protocol.shapes import Count, Shape

NodeState = Literal["ready", "draining", "drained", "stopped", "lost"]


class NodeInfo(Shape, frozen=True):
    """A node; `lastSeen` is its latest heartbeat, in Unix milliseconds."""

    node: str
    state: NodeState
    version: str
    runs: Count
    sessions: Count
    last_seen: Count
    gateway: bool = True
    worker: bool = True
    labels: tuple[str, ...] = ()


class ListNodes(Shape, frozen=True):
    pass


class ListNodesReply(Shape, frozen=True):
    nodes: tuple[NodeInfo, ...]


class DrainNode(Shape, frozen=True):
    node: str
