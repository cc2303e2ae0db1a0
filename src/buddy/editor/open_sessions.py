"""The sessions that an editor has open, and the one connection to the runtime that they share."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any

from msgspec import Struct

from buddy.client.client import Client
from buddy.editor.buffers import answer_file
from buddy.editor.json_rpc import NOT_FOUND, Json, Peer, RpcError
from buddy.editor.permissions import DescribeApproval
from buddy.editor.questions import Questions
from buddy.editor.session import EditorSession
from buddy.editor.shapes import ClientCapabilities
from buddy.errors import ProtocolError
from buddy.protocol.envelopes import Event, FileEvent
from buddy.protocol.mcp_requests import OfferedMcpServer

ACCEPT_SECONDS = 15.0
"""How long a message that was just sent may take to be accepted after the editor is gone."""


class Runtime(Struct, frozen=True):
    """How the command line reaches the runtime, starts sessions and describes approvals."""

    connect: Callable[[Callable[[], bool]], AbstractAsyncContextManager[Client]]
    """Its argument says whether somebody waits, so that a daemon that is gone is started again."""
    start: Callable[[Client, str], Awaitable[str]]
    """Starts a session in a directory, returns its id."""
    describe: DescribeApproval


class OpenSessions:
    def __init__(self, peer: Peer, runtime: Runtime) -> None:
        self.capabilities = ClientCapabilities()
        self._peer = peer
        self._runtime = runtime
        self._sessions: dict[str, EditorSession] = {}
        self._open = AsyncExitStack()
        self._connecting: asyncio.Task[Client] | None = None
        self._questions: Questions | None = None
        self._background: set[asyncio.Task[None]] = set()

    async def client(self) -> Client:
        """The connection to the runtime; opened by the first that needs it."""
        if self._connecting is None:
            self._connecting = asyncio.get_running_loop().create_task(self._connect())
        connecting = self._connecting
        try:
            return await asyncio.shield(connecting)
        except Exception:
            if self._connecting is connecting:
                self._connecting = None  # the next request tries again
            raise

    def add(self, session_id: str, client: Client, servers: tuple[OfferedMcpServer, ...]) -> EditorSession:
        assert self._questions is not None  # noqa: S101 - it is made with the client
        session = EditorSession(session_id, client, self._peer, self.capabilities, self._questions)
        session.servers = servers
        self._sessions[session_id] = session
        return session

    def find(self, params: Json) -> EditorSession:
        session_id = params.get("sessionId")
        session = self._sessions.get(session_id) if isinstance(session_id, str) else None
        if session is None:
            raise RpcError(NOT_FOUND, f"session {str(session_id)[:60]!r} is not open here; load it first")
        return session

    async def remove(self, session_id: str) -> None:
        """Show nothing of it any longer, if it is open."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            await session.close()

    def in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def leave(self) -> None:
        """The editor is gone. What it sent is still accepted; everything else is left to the runtime."""
        sending = [task for session in self._sessions.values() for task in session.prompts.sending]
        if sending:
            await asyncio.wait(sending, timeout=ACCEPT_SECONDS)
        for session_id in list(self._sessions):
            await self.remove(session_id)
        if self._questions is not None:
            await self._questions.close()
        tasks: list[asyncio.Task[Client] | asyncio.Task[None]] = [*self._background]
        tasks += [self._connecting] if self._connecting else []
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self._open.aclose()

    async def _connect(self) -> Client:
        await self._open.aclose()
        client = await self._open.enter_async_context(self._runtime.connect(lambda: self._peer.is_serving))
        self._questions = Questions(self._peer, client, self.capabilities, self._runtime.describe)
        client.on_file = lambda wanted: self.in_background(self._answer_file(client, wanted))
        for session in self._sessions.values():
            session.use(client, self._questions)
            await client.attach(session.session_id, session.last_seq)
        self.in_background(self._follow(client))
        return client

    async def _answer_file(self, client: Client, wanted: FileEvent) -> None:
        with contextlib.suppress(ProtocolError, ConnectionError):  # nobody waits for it any longer
            await answer_file(self._peer, client, wanted)

    async def _follow(self, client: Client) -> None:
        async for event in client.events():
            session = self._session_of(event)
            if session is not None:
                await session.receive(event)
        self._connecting = None
        for session in self._sessions.values():
            session.prompts.fail(ConnectionResetError("the connection was lost; send another message to continue"))

    def _session_of(self, event: Event) -> EditorSession | None:
        """The session that shows an event: its own, or the one whose sub-agent asks."""
        if event.session_id in self._sessions:
            return self._sessions[event.session_id]
        return next((one for one in self._sessions.values() if one.has_child(event.session_id)), None)
