"""Hints between nodes: which sessions grew, have something new in their inbox, or were deleted.

Invariants: a hint is sent after the commit, on a connection of its own; it may be lost or late, and a poll every
second repairs that; hints of the same session that wait to be sent become one.

PostgreSQL up to 18 wakes every listener of a database for every notification, and a notification inside a transaction
holds a lock until after the commit: so there is one channel, and what happens within a few milliseconds is one hint.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from buddy.log.postgres.connections import Channel, LogClosed, Lost, Readers, Server
from buddy.log.postgres.driver import Connection
from buddy.log.waiters import Waiters

WINDOW_SECONDS = 0.005
POLL_SECONDS = 1.0
IDLE_SECONDS = 10.0
"""How long a session is polled after its last reader, and how often an idle connection is tested."""
MAX_PAYLOAD = 7800
INBOX = "+"
GONE = "-"

_HEADS = "SELECT id, last_seq FROM sessions WHERE id = ANY($1::text[])"
_CHANNEL = "SELECT 'buddy_log_' || current_schema()"
_NOTIFY = "SELECT pg_notify('buddy_log_' || current_schema(), hint) FROM unnest($1::text[]) AS hint"

Subscriber = Callable[[str, bool], None]
"""Called with a session's id, and whether the hint is about its inbox."""


class Hints:
    def __init__(self, server: Server, sends: Channel, reads: Readers) -> None:
        self._server = server
        self._sends = sends
        self._reads = reads
        self._waiters = Waiters()
        self._heads: dict[str, int] = {}
        self._used: dict[str, float] = {}
        self._outgoing: dict[tuple[str, bool], str] = {}
        self._sending: asyncio.Task[None] | None = None
        self._listening: asyncio.Task[None] | None = None
        self._subscribers: list[Subscriber] = []
        self.on_deleted: Callable[[str], None] = lambda _: None
        """Called with a session that was deleted on any node."""

    def subscribe(self, subscriber: Subscriber) -> None:
        """Have every hint of any node reported, from now on."""
        self._subscribers.append(subscriber)
        self._listen_soon()

    def grown(self, session_id: str, last_seq: int) -> None:
        """A session grew here: wake its readers, and tell the other nodes."""
        self._advance(session_id, last_seq)
        self._send(session_id, is_inbox=False, what=str(last_seq))

    def woken(self, session_id: str) -> None:
        """A session has something new in its inbox."""
        self._send(session_id, is_inbox=True, what=INBOX)

    def deleted(self, session_id: str) -> None:
        """A session is gone: wake its readers, and tell the other nodes."""
        self._waiters.wake(session_id)
        self._send(session_id, is_inbox=False, what=GONE)

    def wake(self, session_id: str) -> None:
        self._waiters.wake(session_id)

    async def wait(self, session_id: str, after: int, timeout: float) -> bool:
        """Wait until a session has grown past a seq, on any node; False on timeout."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        self._listen_soon()
        self._used[session_id] = loop.time()
        if session_id not in self._heads:
            with suppress(TimeoutError):
                async with asyncio.timeout(max(timeout, POLL_SECONDS)):
                    found = await self._reads.fetch(_HEADS, [session_id])
                    self._heads.setdefault(session_id, found[0][1] if found else 0)
        while self._heads.get(session_id, 0) <= after:
            left = deadline - loop.time()
            if left <= 0:
                return False
            await self._waiters.wait_for_wake(session_id, left)
            self._used[session_id] = loop.time()
        return True

    async def close(self) -> None:
        self._waiters.wake_all()
        tasks = [task for task in (self._sending, self._listening) if task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _advance(self, session_id: str, last_seq: int) -> None:
        if session_id in self._heads and last_seq > self._heads[session_id]:
            self._heads[session_id] = last_seq
            self._waiters.wake(session_id)

    # --- sending ---

    def _send(self, session_id: str, *, is_inbox: bool, what: str) -> None:
        self._outgoing[session_id, is_inbox] = f"{session_id}:{what}"
        if self._sending is None:
            self._sending = asyncio.get_running_loop().create_task(self._send_all())

    async def _send_all(self) -> None:
        try:
            while self._outgoing:
                hints, self._outgoing = list(self._outgoing.values()), {}
                with suppress(Lost, LogClosed):
                    await self._sends.fetch(_NOTIFY, payloads(hints))
                await asyncio.sleep(WINDOW_SECONDS)
        finally:
            self._sending = None

    # --- listening ---

    def _listen_soon(self) -> None:
        if self._listening is None:
            self._listening = asyncio.get_running_loop().create_task(self._listen())

    async def _listen(self) -> None:
        while True:
            connection: Connection | None = None
            try:
                connection = await self._server.connect_patiently(durable=False)
                await self._listen_on(connection)
            except LogClosed:
                return
            except Exception:  # noqa: BLE001, S110 - whatever the driver raises: connect again
                pass
            finally:
                if connection is not None:
                    connection.terminate()

    async def _listen_on(self, connection: Connection) -> None:
        """Until the connection fails: wait for hints, and poll every second."""
        ((channel,),) = await connection.fetch(_CHANNEL, timeout=POLL_SECONDS)
        await connection.add_listener(channel, self._on_notification)
        loop = asyncio.get_running_loop()
        tested = 0.0
        while True:
            self._forget_unused(loop.time())
            if self._heads or loop.time() - tested >= IDLE_SECONDS:
                tested = loop.time()
                for session_id, last_seq in await connection.fetch(_HEADS, list(self._heads), timeout=IDLE_SECONDS):
                    self._advance(session_id, last_seq)
            await asyncio.sleep(POLL_SECONDS)

    def _forget_unused(self, now: float) -> None:
        for session_id in [known for known, used in self._used.items() if now - used > IDLE_SECONDS]:
            if not self._waiters.is_waited_for(session_id):
                del self._used[session_id]
                self._heads.pop(session_id, None)

    def _on_notification(self, _connection: object, _pid: int, _channel: str, payload: object) -> None:
        for hint in str(payload).split(","):
            session_id, _, what = hint.rpartition(":")
            if what.isdecimal():
                self._advance(session_id, int(what))
            if what == GONE:
                self.on_deleted(session_id)
            for subscriber in self._subscribers:
                subscriber(session_id, what == INBOX)


def payloads(hints: list[str]) -> list[str]:
    """Hints joined into as few notifications as the size of one allows."""
    joined: list[str] = []
    for hint in hints:
        if joined and len(joined[-1]) + len(hint) < MAX_PAYLOAD:
            joined[-1] += f",{hint}"
        else:
            joined.append(hint)
    return joined
