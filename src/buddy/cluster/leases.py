"""Leases of sessions on a node: placement decides, and a node that does not work takes none."""

from collections.abc import Callable

from buddy.cluster.contract import Placement
from buddy.errors import ProtocolError
from buddy.log.contract import Lease


class FleetLeases:
    """Satisfies `SessionLeases`. `may_take` is whether this node works now."""

    def __init__(self, placement: Placement, name: str, may_take: Callable[[], bool]) -> None:
        self._placement = placement
        self._name = name
        self._may_take = may_take

    async def acquire(self, session_id: str) -> Lease | None:
        return await self._placement.acquire(session_id) if self._may_take() else None

    async def release(self, lease: Lease, *, resume: bool, due: int | None) -> None:
        await self._placement.release(lease, resume=resume, due=due)

    async def check_place(self, session_id: str) -> None:
        pinned = await self._placement.pinned_to(session_id)
        if pinned is not None and pinned[0] != self._name:
            raise ProtocolError("SANDBOX_UNAVAILABLE", f"it works on node {pinned[0]}, which was lost")

    async def has_other_machine(self, session_id: str) -> bool:
        pinned = await self._placement.pinned_to(session_id)
        return pinned is not None and pinned[0] != self._name and pinned[1]

    async def pin(self, lease: Lease) -> None:
        await self._placement.pin(lease)
