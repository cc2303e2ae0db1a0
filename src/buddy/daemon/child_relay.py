"""Sends the questions of sub-agents, and what became of them, to a client of their parent sessions.

Invariants: an event is sent as it stands in the sub-agent's log, in order, each once per connection; it comes from the
log, so a client that attaches late receives what still waits; a decision that nobody was asked for is not sent.
"""

import asyncio
from collections.abc import Callable

from buddy.daemon.link import ServerLink
from buddy.daemon.remote_children import RemoteChildren
from buddy.log.contract import Log
from buddy.protocol.envelopes import Event
from buddy.protocol.events import ApprovalReceived, ApprovalRequired, events_where
from buddy.sessions.children import working_children
from buddy.sessions.session import Session
from buddy.sessions.sessions import Sessions

WATCH_SECONDS = 30.0
FOR_PARENT = events_where(lambda facts: facts.for_parent)


class ChildRelay:
    """One for each connection. `attached` names the sessions it follows; `on_child` gets each child and its parent."""

    def __init__(
        self,
        link: ServerLink,
        sessions: Sessions,
        log: Log,
        attached: Callable[[], list[str]],
        on_child: Callable[[str, str], None],
    ) -> None:
        self._link = link
        self._sessions = sessions
        self._log = log
        self._attached = attached
        self._on_child = on_child
        self._woken = asyncio.Event()
        self._cursors: dict[str, int] = {}
        self._followed: dict[str, Session] = {}
        self._asked: set[str] = set()
        self._remote = RemoteChildren(log)

    def look_again(self) -> None:
        """The connection follows another session."""
        self._woken.set()

    async def run(self) -> None:
        """Send until it is cancelled or the client is gone."""
        self._sessions.delegations.listen(self._woken)
        try:
            while True:
                self._woken.clear()
                lines = await self._next()
                if lines:
                    await self._link.write(lines)
                else:
                    await self._wait()
        except ConnectionError:
            self._link.close()
        finally:
            self._sessions.delegations.unlisten(self._woken)
            for session in self._followed.values():
                session.audience.unlisten(self._woken)

    async def _next(self) -> bytes:
        attached = self._attached()
        working = {
            child: parent for parent in attached for child in await self._working(parent) if child not in attached
        }
        self._remote.keep([*attached, *working])
        for child, parent in working.items():
            self._on_child(child, parent)
        parts = [await self._lines(child) for child in {**self._cursors, **working}]
        for child in self._cursors.keys() - working.keys():
            del self._cursors[child]
            self._unfollow(child)
        return b"".join(parts)

    async def _working(self, parent: str) -> list[str]:
        """The sub-agents that work for a session, here or on another node."""
        if self._sessions.live(parent) is not None or self._sessions.services.elsewhere is None:
            return working_children(self._sessions, parent)
        return await self._remote.working(parent)

    async def _wait(self) -> None:
        """Wait for something new; what another node has wakes nobody here, so its logs are watched."""
        cursors = {
            **self._remote.cursors,
            **{one: at for one, at in self._cursors.items() if one not in self._followed},
        }
        if self._sessions.services.elsewhere is None or not cursors:
            await self._woken.wait()
            return
        watching = [self._log.wait(session_id, cursor, WATCH_SECONDS) for session_id, cursor in cursors.items()]
        tasks = [asyncio.ensure_future(one) for one in (self._woken.wait(), *watching)]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _lines(self, child: str) -> bytes:
        self._follow(child)
        cursor, session = self._cursors.get(child, 0), self._followed.get(child)
        recent = session.audience.recent(cursor) if session is not None else None
        if recent is None:
            record = await self._log.get(child)
            last = record.last_seq if record is not None else cursor
            recent = await self._log.read(child, cursor, types=FOR_PARENT) if last > cursor else []
        else:
            last = recent[-1].seq if recent else cursor
        self._cursors[child] = max([last, cursor, *(event.seq for event in recent)])
        return b"".join(event.line() for event in recent if event.type in FOR_PARENT and self._is_shown(event))

    def _is_shown(self, event: Event) -> bool:
        body = event.body()
        if isinstance(body, ApprovalRequired):
            self._asked.add(body.approval_id)
        return not isinstance(body, ApprovalReceived) or body.approval_id in self._asked

    def _follow(self, child: str) -> None:
        live = self._sessions.live(child)
        if live is self._followed.get(child):
            return
        self._unfollow(child)
        if live is not None:
            self._followed[child] = live
            live.audience.listen(self._woken)

    def _unfollow(self, child: str) -> None:
        session = self._followed.pop(child, None)
        if session is not None:
            session.audience.unlisten(self._woken)
