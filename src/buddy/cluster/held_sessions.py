"""The sessions that this node has: taken, dropped when another node has them, handed over."""

import asyncio
import time
from contextlib import suppress

from buddy.cluster.contract import Load
from buddy.errors import BuddyError, HandedOver
from buddy.log.contract import Lease
from buddy.sessions.handing_over import settle
from buddy.sessions.session import Session
from buddy.sessions.sessions import Sessions

LEAKED_BEATS = 3
"""A session that this node holds by the log, and does not know for this many beats, is let go."""


class HeldSessions:
    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._leaked: dict[tuple[str, int], int] = {}

    def epochs(self) -> dict[str, int]:
        """The epochs under which sessions are open here."""
        found = self._sessions.open_sessions
        return {session.session_id: session.journal.lease.epoch for session in found if not session.broken}

    def runs(self) -> int:
        return len(self._sessions.services.running)

    def load(self) -> Load:
        sessions = [session for session in self._sessions.open_sessions if not session.broken]
        working = frozenset(session.session_id for session in sessions if session.runs.is_busy)
        return Load(self.runs(), len(sessions), working)

    def knows(self, session_id: str) -> bool:
        """Whether it is open here, being opened, or about to be."""
        sessions = self._sessions
        is_coming = session_id in sessions.opening or session_id in sessions.granted
        return is_coming or any(session.session_id == session_id for session in sessions.open_sessions)

    def count_leaked(self, held: dict[str, int]) -> list[Lease]:
        """What this node has held by the log for several beats without knowing: an answer was lost."""
        unknown = {(session_id, epoch) for session_id, epoch in held.items() if not self.knows(session_id)}
        self._leaked = {key: self._leaked.get(key, 0) + 1 for key in unknown}
        return [Lease(*key, "") for key, beats in self._leaked.items() if beats >= LEAKED_BEATS]

    def leaks(self, session_id: str) -> bool:
        """Whether this node held it at the last beat without knowing it."""
        return any(session_id == leaked for leaked, _ in self._leaked)

    async def adopt(self, lease: Lease) -> Session:
        """Open a session that was taken."""
        held = self._sessions.live(lease.session_id)
        if held is not None:
            held.broken = True  # it was another's in between
        self._sessions.granted[lease.session_id] = lease
        try:
            return await self._sessions.open(lease.session_id)
        finally:
            self._sessions.granted.pop(lease.session_id, None)

    async def drop(self, session_id: str) -> None:
        """Stop working on a session that another node has."""
        session = self._sessions.live(session_id)
        if session is not None:
            session.journal.failure = HandedOver("another node has taken the session")
            session.broken = True
            self._forget(session)
            await session.abandon()

    async def hand_over_all(self, seconds: float) -> None:
        """Let go of everything, so that other nodes continue it."""
        await asyncio.gather(*(self.hand_over(session, seconds) for session in self._sessions.open_sessions))

    def _forget(self, session: Session) -> None:
        """Another node continues it, so it is not opened here again by itself."""
        if self._sessions.by_id.get(session.session_id) is session:
            del self._sessions.by_id[session.session_id]

    async def hand_over(self, session: Session, seconds: float) -> None:
        until = time.monotonic() + seconds
        await settle(lambda: [session], lambda: until)
        with suppress(BuddyError):
            await session.park()
        self._forget(session)
