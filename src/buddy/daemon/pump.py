"""One session's events on their way to one client. The log is the queue, the cursor is all that is kept.

What always holds: only committed events are sent, in order, each once per pump; a slow client makes nobody wait.
"""

import asyncio

from buddy.daemon.link import Link
from buddy.log.contract import Log
from buddy.protocol.envelopes import event_lines
from buddy.sessions.session import Session
from buddy.sessions.sessions import Sessions

AT_ONCE = 256 * 1024
KEPT = 32
LOOK_AGAIN = 1.0
SURELY = 60.0


class Pump:
    def __init__(
        self, link: Link, sessions: Sessions, log: Log, encoded: "Encoded", session_id: str, cursor: int
    ) -> None:
        self._link = link
        self._encoded = encoded
        self._sessions = sessions
        self._log = log
        self._session_id = session_id
        self._cursor = cursor
        self._heard = asyncio.Event()
        self._later: asyncio.TimerHandle | None = None
        self._session: Session | None = None

    async def run(self) -> None:
        """Until it is cancelled or the client is gone."""
        self._look_later()
        try:
            while True:
                self._follow()
                self._heard.clear()
                lines, last_seq = self._encoded.after(self._session_id, self._cursor) or await self._next()
                if lines:
                    await self._link.write(lines)
                    self._cursor = last_seq
                else:
                    await self._wait()
        except ConnectionError:
            self._link.close()
        finally:
            if self._later is not None:
                self._later.cancel()
            if self._session is not None:
                self._session.audience.unlisten(self._heard)

    def _look_later(self) -> None:
        """A session tells of all that is new, and of its end; now and then the pump looks for itself all the same."""
        self._heard.set()
        self._later = asyncio.get_running_loop().call_later(SURELY, self._look_later)

    def _follow(self) -> None:
        """Listen to the session where it is open here; after a failure it may be another object."""
        live = self._sessions.live(self._session_id)
        if live is self._session:
            return
        if self._session is not None:
            self._session.audience.unlisten(self._heard)
        self._session = live
        if live is not None:
            live.audience.listen(self._heard)

    async def _next(self) -> "Portion":
        """What comes next, spelt; nothing where nothing is there yet."""
        session_id, cursor = self._session_id, self._cursor
        recent = self._session.audience.recent(cursor) if self._session is not None else None
        if recent is None:
            portion = await self._log.read_lines(session_id, cursor, AT_ONCE)
        else:
            portion = event_lines(recent, cursor, AT_ONCE)
        if portion[0]:
            self._encoded.keep(session_id, cursor, portion)
        return portion

    async def _wait(self) -> None:
        """For something new."""
        if self._session is None:
            await self._log.wait(self._session_id, self._cursor, LOOK_AGAIN)
        else:
            await self._heard.wait()


class Encoded:
    """The lines that were sent last, by what they come after: what several clients follow is read and spelt once.

    An event never changes, so nothing here can be wrong; a portion is small, so a slow client keeps little.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[str, int], Portion] = {}

    def after(self, session_id: str, cursor: int) -> "Portion | None":
        return self._kept.get((session_id, cursor))

    def keep(self, session_id: str, cursor: int, portion: "Portion") -> None:
        self._kept[session_id, cursor] = portion
        if len(self._kept) > KEPT:
            del self._kept[next(iter(self._kept))]


Portion = tuple[bytes, int]
"""Whole lines, and the seq of the last one."""
