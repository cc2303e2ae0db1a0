"""Lets go of sessions in the middle of their runs, so that another process continues them from the log.

Invariants: from the moment a session is handed over, it starts no further call; a call that is running is waited for,
because stopping it would make its outcome unknown, but for one in a terminal, which the next process finds again.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from buddy.capabilities import has
from buddy.errors import BuddyError, HandedOver
from buddy.protocol.events import WarningRaised
from buddy.sessions.session import Session
from buddy.sessions.sessions import Sessions
from buddy.targets.contract import Terminal

LOOK_SECONDS = 0.05
RESTARTING = "RESTARTING"


async def settle(sessions: Callable[[], Sequence[Session]], until: Callable[[], float]) -> None:
    """Start no further calls, and wait until those that are running have ended.

    `until` is the time, by the monotonic clock, to which that may take; it may change meanwhile.
    """
    while hold(sessions()) and time.monotonic() < until():  # noqa: ASYNC110 - looked at rarely
        await asyncio.sleep(LOOK_SECONDS)


async def announce(sessions: Sequence[Session], seconds: float) -> None:
    """Say in every session with a run why nothing begins there."""
    message = (
        "the daemon is being replaced: no call starts until then, and calls that are running "
        f"have up to {seconds:.0f} s to end"
    )
    for session in sessions:
        if session.fold.run is not None and not session.broken:
            session.journal.record(WarningRaised(code=RESTARTING, message=message), session.fold.run.run_id)
            with suppress(BuddyError):
                await session.commit()


def hold(sessions: Sequence[Session]) -> bool:
    """Let no call begin; returns whether one is running that has to be waited for."""
    for session in sessions:
        session.is_closing = session.journal.holds_claims = True
    return any(
        is_changing_something(session)
        for session in sessions
        if not session.broken and not has(session.place.target, Terminal)
    )


async def let_go_of_all(sessions: Sessions) -> None:
    await asyncio.gather(*map(let_go, sessions.open_sessions))
    sessions.by_id.clear()


async def let_go(session: Session) -> None:
    """Stop as if the process had died."""
    with suppress(BuddyError):
        if has(session.place.target, Terminal) and is_changing_something(session):
            await _leave_running(session)
        else:
            await session.park()


async def _leave_running(session: Session) -> None:
    """Release the session without stopping what runs in its terminal; this process ends next."""
    await session.journal.commit()
    session.journal.failure = HandedOver("the session was handed over")
    session.broken = True
    await session.services.release(session.journal.lease, resume=True)


def is_changing_something(session: Session) -> bool:
    """Whether a call with side effects is running."""
    run = session.fold.run
    return run is not None and any(call.stage == "claimed" for call in run.open_calls.values())
