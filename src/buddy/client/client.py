"""The protocol's client: requests with their responses, and the events of the sessions it is attached to.

What always holds: events come in the order of their seq and each once, whatever was sent twice or resent after a lost
connection; while a request waits for its response the client goes on reading, so the two never block each other.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import Protocol, Self, TypeVar

import msgspec

from buddy.errors import ProtocolError
from buddy.protocol import requests as ask
from buddy.protocol.codes import VERSION
from buddy.protocol.envelopes import Event, Request, Response, encode, parse_incoming
from buddy.protocol.ids import Ids, Ulids
from buddy.protocol.request_table import REQUESTS
from buddy.protocol.shapes import Shape

MAX_BUFFERED = 10_000
PATIENCE = 30.0
FIRST_WAIT = 0.02
LONGEST_WAIT = 1.0

Reply = TypeVar("Reply", bound=Shape)


class Link(Protocol):
    """What carries the lines: a socket, a WebSocket, or a queue in this process."""

    async def read_line(self) -> bytes | None: ...

    async def write(self, lines: bytes) -> None: ...

    def close(self) -> None: ...


class Client:
    """Use it as `async with Client(link, "my-app") as client`."""

    def __init__(
        self,
        link: Link,
        name: str,
        version: str = "0",
        *,
        ids: Ids | None = None,
        reconnect: Callable[[], Awaitable[Link]] | None = None,
        patience: float = PATIENCE,
    ) -> None:
        """With `reconnect`, a lost connection is made again for up to `patience` seconds, from the last seq seen."""
        self.runtime: ask.HelloReply | None = None
        self._reconnect = reconnect
        self._patience = patience
        self._attached: dict[str, str | None] = {}
        self._joined = asyncio.Event()
        self._has_joined = False
        self._joining: asyncio.Task[None] | None = None
        self._wait = FIRST_WAIT
        self._deadline = 0.0
        self._link = link
        self._name = name
        self._version = version
        self._ids = ids or Ulids()
        self._waiting: dict[str, asyncio.Future[Response]] = {}
        self._events: deque[Event] = deque()
        self._changed = asyncio.Event()
        self._seen: dict[str, int] = {}
        self._reader: asyncio.Task[None] | None = None
        self._gone = False

    async def __aenter__(self) -> Self:
        self._reader = asyncio.get_running_loop().create_task(self._read())
        try:
            async with asyncio.timeout(PATIENCE):
                await self._join()
        except TimeoutError:
            await self.__aexit__(None, None, None)
            raise TimeoutError("the runtime does not answer") from None
        except BaseException:
            await self.__aexit__(None, None, None)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._link.close()
        tasks = [task for task in (self._reader, self._joining) if task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def request(self, payload: Shape, reply: type[Reply], session_id: str | None = None) -> Reply:
        """Send a request, wait for its response; a refusal is a ProtocolError, a lost connection a ConnectionError."""
        await self._joined.wait()
        return await self._ask(payload, reply, session_id)

    async def _ask(self, payload: Shape, reply: type[Reply], session_id: str | None = None) -> Reply:
        kind = _KINDS[type(payload)]
        request_id = self._ids("req")
        session_id = session_id or getattr(payload, "session_id", None)
        request = Request(request_id, kind, encode(payload), session_id or msgspec.UNSET)
        waiting: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self._waiting[request_id] = waiting
        self._changed.set()
        try:
            if self._gone:
                raise ConnectionResetError("the runtime is gone")
            await self._link.write(request.line())
            response = await waiting
        finally:
            del self._waiting[request_id]
        if response.error is not None or not response.ok:
            error = response.error
            if error is None:
                raise ProtocolError("INTERNAL_ERROR", "a refusal without a reason")
            raise ProtocolError(error.code, error.message, retryable=error.retryable, detail=error.detail)
        return msgspec.json.decode(response.payload, type=reply)

    async def events(self) -> AsyncIterator[Event]:
        """Every event from now on, until the connection ends."""
        while True:
            while self._events:
                event = self._events.popleft()
                self._changed.set()
                yield event
            if self._gone:
                return
            self._changed.clear()
            await self._changed.wait()

    # --- the requests a front end makes all the time ----------------------------------------------------------------

    async def start_session(self, wish: ask.StartSession) -> ask.StartSessionReply:
        started = await self.request(wish, ask.StartSessionReply)
        self._attached[started.session_id] = started.attach_token
        return started

    async def attach(self, session_id: str, last_seen_seq: int = 0, token: str | None = None) -> ask.AttachSessionReply:
        self._seen[session_id] = last_seen_seq
        reply = await self.request(ask.AttachSession(session_id, last_seen_seq, token), ask.AttachSessionReply)
        self._attached[session_id] = token
        return reply

    def forget(self, session_id: str) -> None:
        """Do not take this session up again after a lost connection: it may be no more by then."""
        self._attached.pop(session_id, None)

    async def send(self, message: ask.SendUserMessage) -> str:
        """Send a message; its id makes sure that it is taken once, however often the connection is lost."""
        while True:
            try:
                return (await self.request(message, ask.SendUserMessageReply)).run_id
            except ConnectionError:
                if self._reconnect is None or self._gone:
                    raise

    async def approve(self, answer: ask.SubmitApproval) -> None:
        await self.request(answer, ask.AcceptedReply)

    async def cancel(self, session_id: str, run_id: str, reason: str = "user_cancelled") -> None:
        await self.request(ask.CancelRun(session_id, run_id, reason), ask.AcceptedReply)

    # --- inside -----------------------------------------------------------------------------------------------------

    async def _join(self) -> None:
        """Say who we are, and take every session up where we left it."""
        capabilities = ("stream_tokens", "approvals", "replay_attach")
        self.runtime = await self._ask(ask.Hello(self._name, self._version, capabilities), ask.HelloReply)
        if self.runtime.protocol_version != VERSION:
            raise ProtocolError("UNSUPPORTED_PROTOCOL_VERSION", f"the runtime speaks {self.runtime.protocol_version}")
        for session_id, token in self._attached.items():
            again = ask.AttachSession(session_id, self._seen.get(session_id, 0), token)
            await self._ask(again, ask.AttachSessionReply)
        self._has_joined = True
        self._joined.set()

    async def _rejoin(self) -> None:
        try:
            await self._join()
        except ConnectionError:
            self._link.close()
        except ProtocolError as error:
            if not error.retryable:
                self._reconnect = None  # refused for good: the token or the session is no more
            self._link.close()

    async def _read(self) -> None:
        try:
            await self._read_link()
            while await self._connect_again():
                await self._read_link()
        finally:
            self._gone = True
            self._lose()
            self._joined.set()

    async def _read_link(self) -> None:
        with contextlib.suppress(ConnectionError):
            while (line := await self._link.read_line()) is not None:
                if line:
                    self._take(line)
                while len(self._events) >= MAX_BUFFERED and not self._waiting:
                    self._changed.clear()
                    await self._changed.wait()

    async def _connect_again(self) -> bool:
        """Make the connection again; a try that was let in but could not join counts as none."""
        self._joined.clear()
        self._link.close()
        self._lose()
        now = asyncio.get_running_loop().time()
        if self._has_joined:
            self._has_joined, self._wait, self._deadline = False, FIRST_WAIT, now + self._patience
        else:
            await self._pause()
        while self._reconnect is not None and asyncio.get_running_loop().time() < self._deadline:
            try:
                self._link = await self._reconnect()
            except OSError:
                await self._pause()
                continue
            self._joining = asyncio.get_running_loop().create_task(self._rejoin())
            return True
        return False

    async def _pause(self) -> None:
        await asyncio.sleep(self._wait)
        self._wait = min(self._wait * 2, LONGEST_WAIT)

    def _lose(self) -> None:
        """Whoever waits for an answer learns that it will not come."""
        self._changed.set()
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(ConnectionResetError("the connection was lost"))

    def _take(self, line: bytes) -> None:
        match parse_incoming(line):
            case Response() as response:
                waiting = self._waiting.get(response.request_id)
                if waiting is not None and not waiting.done():
                    waiting.set_result(response)
            case Event() as event:
                if event.seq > self._seen.get(event.session_id, 0):
                    self._seen[event.session_id] = event.seq
                    self._events.append(event)
                    self._changed.set()


_KINDS: dict[type[Shape], str] = {row.payload: kind for kind, row in REQUESTS.items()}
