"""What a fleet needs to know: its nodes, and who should work on what.

Invariants: placement only says who should take a session; who has it is in the session's row, under its epoch, and
nothing else decides who may write.
"""

from collections.abc import Sequence
from typing import Literal, Protocol

from msgspec import Struct

from buddy.log.contract import Lease
from buddy.protocol.node_requests import NodeInfo, NodeState


class NodeRecord(Struct, frozen=True):
    """A node as all nodes see it; `owner` is its identity in leases, `last_seen` in Unix milliseconds."""

    owner: str
    name: str
    version: str
    state: NodeState
    gateway: bool
    worker: bool
    labels: tuple[str, ...]
    runs: int
    sessions: int
    last_seen: int

    def info(self) -> NodeInfo:
        """As clients see it."""
        return NodeInfo(
            self.name,
            self.state,
            self.version,
            self.runs,
            self.sessions,
            self.last_seen,
            self.gateway,
            self.worker,
            self.labels,
        )


class Load(Struct, frozen=True):
    """What a node does now; `working` are the sessions with a run."""

    runs: int = 0
    sessions: int = 0
    working: frozenset[str] = frozenset()


class Beat(Struct, frozen=True):
    """The answer to a heartbeat: what others want of this node, and what it holds by the log, with its epochs."""

    state: NodeState
    held: dict[str, int]
    queue: int


class Taken(Struct, frozen=True):
    """A session that this node has from now on; `reason` is why somebody had to."""

    lease: Lease
    reason: Literal["due", "lost_node"]


class Placement(Protocol):
    """Who should work on which session. An implementation may use another system; the epochs stay in the log."""

    async def join(self) -> None:
        """Become a node; UserError if the name is in use by another that lives."""
        ...

    async def beat(self, load: Load) -> Beat: ...

    async def take(self, limit: int) -> Sequence[Taken]:
        """Take sessions that need a node, at most `limit`."""
        ...

    async def acquire(self, session_id: str) -> Lease | None:
        """Take one session, unless another node has it or it belongs to one."""
        ...

    async def release(self, lease: Lease, *, resume: bool, due: int | None) -> None:
        """Let a session go; `resume`: another node should take it at once, `due`: at that time, in Unix ms."""
        ...

    async def pin(self, lease: Lease) -> None:
        """Bind a session to this node for good: what it works on is here."""
        ...

    async def pinned_to(self, session_id: str) -> tuple[str, bool] | None:
        """The node that a session is bound to, and whether it lives; None if it may move."""
        ...

    async def nodes(self) -> list[NodeRecord]: ...

    async def set_state(self, name: str, state: NodeState) -> bool:
        """Ask a node to drain, or to work again; False if there is none of this name."""
        ...

    async def leave(self) -> None: ...
