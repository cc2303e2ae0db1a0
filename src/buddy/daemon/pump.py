"""Sends one session's events to one client. The log is the queue; the cursor is the only state.

Invariants: only committed events are sent, in order, each once per pump and without a gap that is not announced; a slow
client delays nobody else.
"""

import asyncio
import re
import time

from buddy.daemon.link import ServerLink
from buddy.errors import BuddyError
from buddy.log.contract import Log
from buddy.protocol.envelopes import event_lines
from buddy.sessions.session import Session
from buddy.sessions.sessions import Sessions

PORTION_BYTES = 256 * 1024
CACHED = 32
POLL_SECONDS = 1.0
SAFEGUARD_SECONDS = 60.0
_SEQ = re.compile(rb'"seq":(\d+)')
_TIME = re.compile(rb'"ts":(\d+)')


class Pump:
    def __init__(
        self, link: ServerLink, sessions: Sessions, log: Log, encoded: "LineCache", session_id: str, cursor: int
    ) -> None:
        self._link = link
        self._encoded = encoded
        self._sessions = sessions
        self._log = log
        self._session_id = session_id
        self._cursor = cursor
        self._woken = asyncio.Event()
        self._later: asyncio.TimerHandle | None = None
        self._session: Session | None = None
        self._is_live = False

    async def run(self) -> None:
        """Send until it is cancelled or the client is gone."""
        self._wake_regularly()
        try:
            while True:
                self._follow()
                self._woken.clear()
                lines, last_seq = self._encoded.after(self._session_id, self._cursor) or await self._next()
                if lines:
                    self._encoded.note_lag(lines if self._is_live and self._session is None else b"")
                    await self._link.write(lines)
                    self._cursor = last_seq
                    self._is_live = False
                    if self._session is not None:
                        self._session.audience.note_received(last_seq)
                else:
                    await self._wait()
                    self._is_live = True
        except ConnectionError:
            self._link.close()
        finally:
            if self._later is not None:
                self._later.cancel()
            if self._session is not None:
                self._session.audience.unlisten(self._woken)

    def _wake_regularly(self) -> None:
        """Also poll, as a safeguard: normally a session wakes its pumps for every commit, and when it closes."""
        self._woken.set()
        self._later = asyncio.get_running_loop().call_later(SAFEGUARD_SECONDS, self._wake_regularly)

    def _follow(self) -> None:
        """Listen to the session if it is open here; after a failure it may be another object."""
        live = self._sessions.live(self._session_id)
        if live is self._session:
            return
        if self._session is not None:
            self._session.audience.unlisten(self._woken)
        self._session = live
        if live is not None:
            live.audience.listen(self._woken)

    async def _next(self) -> "Portion":
        """The next lines; empty if there is nothing new."""
        session_id, cursor = self._session_id, self._cursor
        recent = self._session.audience.recent(cursor) if self._session is not None else None
        if recent is None:
            portion = await self._log.read_lines(session_id, cursor, PORTION_BYTES)
            session, is_gap = self._session, _first_seq(portion) > cursor + 1
            if session is not None and is_gap and await self._announce_gap(session):
                return b"", self._cursor
        else:
            portion = event_lines(recent, cursor, PORTION_BYTES)
        if portion[0]:
            self._encoded.add(session_id, cursor, portion)
        return portion

    async def _announce_gap(self, session: Session) -> bool:
        """The next events were pruned before they were sent: record a gap and a snapshot, and continue from there.

        False if that cannot be recorded; then what is left is sent, as for a session that is not open here.
        """
        try:
            record = await self._sessions.record(self._session_id)
            await session.announce_gap(self._cursor, record)
        except BuddyError:
            return False
        self._cursor = record.last_seq
        self._woken.set()
        return True

    async def _wait(self) -> None:
        """Wait for something new."""
        if self._session is None:
            while not await self._log.wait(self._session_id, self._cursor, POLL_SECONDS):
                if self._sessions.live(self._session_id) is not None:
                    return  # it was opened here, so there is someone to listen to
        else:
            await self._woken.wait()


class LineCache:
    """The lines that were sent last, by their cursor, so that events for several clients are read and encoded once.

    Events never change, so the cache cannot be stale; portions are small, so a slow client retains little.
    """

    def __init__(self) -> None:
        self.lag = 0.0
        """Seconds from recording an event in another process to sending it here, for the latest such event."""
        self._portions: dict[tuple[str, int], Portion] = {}

    def note_lag(self, lines: bytes) -> None:
        found = _TIME.search(lines)
        if found is not None:
            self.lag = max(0.0, time.time() - int(found[1]) / 1000)

    def after(self, session_id: str, cursor: int) -> "Portion | None":
        return self._portions.get((session_id, cursor))

    def add(self, session_id: str, cursor: int, portion: "Portion") -> None:
        self._portions[session_id, cursor] = portion
        if len(self._portions) > CACHED:
            del self._portions[next(iter(self._portions))]


Portion = tuple[bytes, int]
"""Complete lines, and the seq of the last one."""


def _first_seq(portion: Portion) -> int:
    found = _SEQ.search(portion[0])
    return int(found[1]) if found is not None else 0
