"""Requests that another node serves: put where the session's owner finds them, and answered with the outcome.

Invariants: a request is taken once, before it is served, so a node that dies while it serves one leaves it unanswered
rather than done twice; the node that waits for an answer learns that its server was lost.
"""

import asyncio
from collections.abc import Awaitable, Callable

from msgspec import Struct

from buddy.cluster import statements as sql
from buddy.cluster.postgres import PostgresPlacement
from buddy.errors import ProtocolError
from buddy.log.postgres.connections import Channel
from buddy.log.postgres.postgres import PostgresLog

ANSWER_SECONDS = 60.0
POLL_SECONDS = 0.5
CLOSE_SECONDS = 2.0
ANY_NODE = "node:any"


class ServerLost(Exception):
    """The node that took the request is gone; whether it was served is not known."""


class Unanswered(Exception):
    """A node took the request and has not answered in time; it may be done, now or later."""


class Moved(Exception):
    """The session is no longer here: another node should serve the request."""


class RemoteRequest(Struct, frozen=True):
    """`session_id` is None for requests that any worker may serve."""

    request_id: str
    session_id: str | None
    body: bytes


Serve = Callable[[bytes], Awaitable[bytes]]
"""Serves the body of a request, and returns the body of its answer; raises Moved to give it back."""


class RemoteRequests:
    def __init__(self, log: PostgresLog, placement: PostgresPlacement, owner: str, ttl_ms: int) -> None:
        self._log = log
        self._placement = placement
        self._owner = owner
        self._ttl = ttl_ms
        self.channel = Channel(log.server)
        self._waiting: dict[str, tuple[RemoteRequest, asyncio.Future[bytes]]] = {}
        self._serving: set[asyncio.Task[None]] = set()
        self._polling: asyncio.Task[None] | None = None
        self._news = asyncio.Event()

    # --- the node that was asked ------------------------------------------------------------------------------------

    async def ask(self, request: RemoteRequest, seconds: float | None = None) -> bytes:
        """Have a request served by another node.

        ServerLost if that node died meanwhile; Unanswered if it has not answered in time.
        """
        future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting[request.request_id] = request, future
        try:
            await self._put(request)
            self._poll_soon()
            async with asyncio.timeout(seconds or ANSWER_SECONDS):
                return await future
        except TimeoutError:
            return await self._withdraw(request)
        finally:
            del self._waiting[request.request_id]
            await self.channel.repeat(sql.FORGET, request.request_id)

    async def _withdraw(self, request: RemoteRequest) -> bytes:
        """Take a request back if nobody has begun it; the answer, if it came in the last moment."""
        found = await self.channel.repeat(sql.FORGET, request.request_id)
        match found[0][0] if found else "taken":
            case "done":
                return bytes(found[0][1])
            case "waiting":
                message = "no node could serve this in time; try again"
                raise ProtocolError("OVERLOADED", message, retryable=True) from None
            case _:
                raise Unanswered from None

    def wanted(self) -> set[str]:
        """The sessions that requests of this node are about."""
        return {request.session_id for request, _ in self._waiting.values() if request.session_id is not None}

    async def _put(self, request: RemoteRequest) -> None:
        if request.session_id is not None:
            await self.channel.repeat(sql.PUT, request.request_id, request.session_id, request.body)
            self._log.hints.woken(request.session_id)
            return
        arguments = (request.request_id, request.body, self._ttl)
        if not await self.channel.repeat(sql.PUT_ANYWHERE, *arguments):
            raise ProtocolError("OVERLOADED", "no node is ready to work", retryable=True)
        self._log.hints.woken(ANY_NODE)

    def _poll_soon(self) -> None:
        if self._polling is None or self._polling.done():
            self._polling = asyncio.get_running_loop().create_task(self._poll())

    async def _poll(self) -> None:
        """Look for answers when a hint came, and regularly, while somebody waits for one."""
        while self._waiting:
            self._news.clear()
            await self._look()
            try:
                async with asyncio.timeout(POLL_SECONDS):
                    await self._news.wait()
            except TimeoutError:
                continue

    async def _look(self) -> None:
        for request_id, state, reply, is_lost in await self._log.reads.fetch(
            sql.ANSWERS, list(self._waiting), self._ttl
        ):
            _, future = self._waiting.get(request_id, (None, None))
            if future is None or future.done():
                continue
            if state == "done":
                future.set_result(bytes(reply))
            elif is_lost:
                future.set_exception(ServerLost())

    # --- the node that has the session ------------------------------------------------------------------------------

    @property
    def is_serving(self) -> bool:
        return bool(self._serving)

    def on_hint(self) -> None:
        self._news.set()

    def hint(self, subject: str) -> None:
        """Have all nodes look soon."""
        self._log.hints.woken(subject)

    async def serve_waiting(self, serve: Serve) -> None:
        """Take what waits for this node and its sessions, and serve it."""
        wakes: dict[str, int] = {}
        for request_id, session_id, number, body in await self.channel.repeat(sql.SERVE, self._owner):
            if request_id is None:
                wakes[session_id] = number
                continue
            request = RemoteRequest(request_id, session_id, bytes(body))
            task = asyncio.get_running_loop().create_task(self._serve(request, serve))
            self._serving.add(task)
            task.add_done_callback(self._serving.discard)
        self._placement.looked(wakes)

    async def _serve(self, request: RemoteRequest, serve: Serve) -> None:
        try:
            reply = await serve(request.body)
        except Moved:
            await self.channel.repeat(sql.RETURN, request.request_id, self._owner)
        else:
            await self.channel.repeat(sql.REPLY, request.request_id, reply, self._owner)
        self._log.hints.woken(request.session_id or ANY_NODE)

    async def close(self) -> None:
        """Answer what is being served, within a time limit."""
        if self._serving:
            await asyncio.wait(self._serving, timeout=CLOSE_SECONDS)
        tasks = [*self._serving, *([self._polling] if self._polling else [])]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self.channel.close()
