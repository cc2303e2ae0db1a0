"""Sessions that work on a machine of their own: where several processes share a log, they stay with that machine's."""

from buddy.log.contract import Lease
from buddy.protocol.events import SessionStarted, WarningRaised
from buddy.sessions.services import SessionServices


def is_on_this_machine(started: SessionStarted) -> bool:
    target = (started.options.target if started.options else None) or started.sandbox_provider
    return target.partition(":")[0] not in ("container", "ssh")


async def pin(services: SessionServices, lease: Lease, started: SessionStarted) -> tuple[WarningRaised, ...]:
    """Bind a new session to this process's machine if it works there; what its users should know about that."""
    if services.leases is None or not is_on_this_machine(started):
        return ()
    await services.leases.pin(lease)
    message = f"this session works on node {services.node} itself and stays there; container and ssh targets can move"
    return (WarningRaised(code="PINNED_TO_NODE", message=message),)


async def check_place(services: SessionServices, session_id: str, started: SessionStarted | None) -> None:
    """Refuse to work on a session that belongs to another machine."""
    if services.leases is not None and started is not None and is_on_this_machine(started):
        await services.leases.check_place(session_id)
