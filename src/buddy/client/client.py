"""The asyncio client: requests with their responses, and the events of the sessions it is attached to.

Invariants: events arrive in the order of their seq, each once, even if sent twice or resent after a lost connection;
while a request waits for its response the client keeps reading, so the two never block each other.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from types import TracebackType
from typing import Protocol, Self, TypeVar

import msgspec

from buddy.client.core import PATIENCE, Backoff, Core, Fields, RequestResult, refusal_of
from buddy.client.steps import Ask
from buddy.errors import ProtocolError
from buddy.protocol import requests as ask
from buddy.protocol.envelopes import Event, FileEvent, Response, RowEvent, encode, parse_incoming
from buddy.protocol.ids import Ids
from buddy.protocol.request_table import REQUESTS
from buddy.protocol.shapes import AttachOptions, Shape, WaitingMessage

MAX_BUFFERED = 10_000

Reply = TypeVar("Reply", bound=Shape)
Result = TypeVar("Result")


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
        """With `reconnect`, a lost connection is retried for up to `patience` seconds, from the last seq seen."""
        self.runtime: ask.HelloReply | None = None
        self.on_file: Callable[[FileEvent], None] | None = None
        """Called with what the runtime wants of the files that this client has offered."""
        self._core: Core[msgspec.Raw] = Core(name, version, self._read_hello, _gap_end, ids)
        self.offer = self._core.offer
        self._link = link
        self._reconnect = reconnect
        self._patience = patience
        self._backoff = Backoff()
        self._deadline = 0.0
        self._joined = asyncio.Event()
        self._events: deque[Event] = deque()
        self._changed = asyncio.Event()
        self._reader: asyncio.Task[None] | None = None
        self._is_gone = False

    async def __aenter__(self) -> Self:
        self._reader = asyncio.get_running_loop().create_task(self._read())
        try:
            async with asyncio.timeout(PATIENCE):
                await self._joined.wait()
        except BaseException as error:
            await self.__aexit__(None, None, None)
            if isinstance(error, TimeoutError):
                raise TimeoutError("the runtime does not answer") from None
            raise
        if self._is_gone:
            await self.__aexit__(None, None, None)
            raise self._core.refusal or ConnectionResetError("the connection was lost")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._link.close()
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.wait([self._reader])

    async def request(self, payload: Shape, reply: type[Reply], session_id: str | None = None) -> Reply:
        """Send a request, wait for its response; a refusal is a ProtocolError, a lost connection a ConnectionError."""
        return await self._request(payload, reply, session_id, repeat=False)

    async def perform(self, steps: Generator[Ask, Fields, Result]) -> Result:
        """Send the requests that the steps yield, until they have a result (`steps.py`)."""
        try:
            wanted = next(steps)
            while True:
                try:
                    payload = await self._send(wanted.kind, msgspec.json.encode(wanted.payload), wanted.session_id)
                except ProtocolError as error:
                    wanted = steps.throw(error)
                else:
                    wanted = steps.send(msgspec.json.decode(payload))
        except StopIteration as end:
            return end.value

    async def events(self) -> AsyncIterator[Event]:
        """Every event from now on, until the connection ends."""
        while True:
            while self._events:
                event = self._events.popleft()
                self._changed.set()
                yield event
            if self._is_gone:
                return
            self._changed.clear()
            await self._changed.wait()

    # --- frequent requests ------------------------------------------------------------------------------------------

    async def start_session(self, wanted: ask.StartSession) -> ask.StartSessionReply:
        started = await self.request(wanted, ask.StartSessionReply)
        self._core.follow(started.session_id, started.attach_token)
        return started

    async def attach(self, session_id: str, last_seen_seq: int = 0, token: str | None = None) -> ask.AttachSessionReply:
        self._core.seek(session_id, last_seen_seq)
        # What was received of it and not read yet comes again.
        self._events = deque(event for event in self._events if event.session_id != session_id)
        options = msgspec.convert(self._core.attach_payload(session_id, 0).get("options"), AttachOptions | None)
        reply = await self.request(ask.AttachSession(session_id, last_seen_seq, token, options), ask.AttachSessionReply)
        self._core.follow(session_id, token)
        return reply

    def forget(self, session_id: str) -> None:
        """Do not re-attach to this session after a lost connection: it may not exist by then."""
        self._core.forget(session_id)

    async def send(self, message: ask.SendUserMessage) -> str:
        """Send a message; its id makes sure that it is accepted once, however often the connection is lost."""
        return (await self._request(message, ask.SendUserMessageReply, None, repeat=True)).run_id

    async def approve(self, answer: ask.SubmitApproval) -> None:
        await self.request(answer, ask.AcceptedReply)

    async def cancel(
        self, session_id: str, run_id: str, reason: str = "user_cancelled", *, return_queue: bool = False
    ) -> tuple[WaitingMessage, ...]:
        """Cancel a run; with `return_queue`, what was waiting is given back and starts nothing."""
        request = ask.CancelRun(session_id, run_id, reason, return_queue=return_queue)
        return (await self.request(request, ask.CancelRunReply)).returned

    # --- requests ---------------------------------------------------------------------------------------------------

    async def _request(self, payload: Shape, reply: type[Reply], session_id: str | None, *, repeat: bool) -> Reply:
        kind = _KINDS[type(payload)]
        session_id = session_id or getattr(payload, "session_id", None)
        answer = await self._send(kind, bytes(encode(payload)), session_id, repeat=repeat)
        return msgspec.json.decode(answer, type=reply)

    async def _send(
        self, kind: str, payload: bytes, session_id: str | None, *, repeat: bool = False
    ) -> msgspec.Raw | bytes:
        await self._joined.wait()
        if self._is_gone:
            raise ConnectionResetError("the runtime is gone")
        waiting: asyncio.Future[msgspec.Raw] = asyncio.get_running_loop().create_future()
        request_id = self._core.request(kind, payload, _resolver(waiting), session_id, repeat=repeat)
        self._changed.set()
        try:
            try:
                await self._flush()
            except ConnectionError:
                if not repeat:
                    raise
            return await waiting
        finally:
            self._core.abandon(request_id)

    async def _flush(self) -> None:
        """Send what is queued, line by line, as each WebSocket message is one line."""
        while self._core.outgoing:
            await self._link.write(self._core.outgoing.pop(0))

    # --- the connection ---------------------------------------------------------------------------------------------

    def _read_hello(self, payload: msgspec.Raw) -> str:
        self.runtime = msgspec.json.decode(payload, type=ask.HelloReply)
        return self.runtime.protocol_version

    async def _read(self) -> None:
        try:
            await self._read_connection()
            while await self._connect_again():
                await self._read_connection()
        finally:
            self._is_gone = True
            self._core.disconnect(for_good=True)
            self._changed.set()
            self._joined.set()

    async def _read_connection(self) -> None:
        """Join this connection and read it to its end; a refusal ends it, too."""
        self._core.connect()
        with contextlib.suppress(ConnectionError):
            await self._flush()
            while (line := await self._link.read_line()) is not None:
                if line:
                    self._handle_line(line)
                if self._core.refusal is not None:
                    break
                while len(self._events) >= MAX_BUFFERED and not self._core.is_waiting:
                    self._changed.clear()
                    await self._changed.wait()
        self._link.close()

    async def _connect_again(self) -> bool:
        """Reconnect; a connection that could not be joined does not restart the clock."""
        refusal = self._core.refusal
        if self._reconnect is None or (refusal is not None and not refusal.retryable):
            return False  # refused for good: the token or the session is gone
        self._core.disconnect()
        self._changed.set()
        now = asyncio.get_running_loop().time
        if self._joined.is_set():
            self._joined.clear()
            self._backoff, self._deadline = Backoff(), now() + self._patience
        else:
            await asyncio.sleep(self._backoff.next())
        while now() < self._deadline:
            try:
                self._link = await self._reconnect()
            except OSError:
                await asyncio.sleep(self._backoff.next())
                continue
            return True
        return False

    def _handle_line(self, line: bytes) -> None:
        try:
            received = parse_incoming(line)
        except ProtocolError as error:
            self._core.refuse(error)
            return
        match received:
            case Response() as response:
                self._core.answer(response.request_id, response.payload, _error_of(response))
            case Event() as event:
                if self._core.is_new(event.session_id, event.seq):
                    self._events.append(event)
                    self._changed.set()
            case FileEvent():
                if self.on_file is not None:
                    self.on_file(received)
            case RowEvent():
                pass  # this client does not watch the list
        if self._core.is_joined:
            self._joined.set()


def _gap_end(attached: msgspec.Raw) -> int | None:
    replay = msgspec.json.decode(attached, type=ask.AttachSessionReply).replay
    return replay.from_seq if replay.gap else None


def _error_of(response: Response) -> ProtocolError | None:
    error = response.error
    if error is None:
        return None if response.ok else refusal_of(None)
    return ProtocolError(error.code, error.message, retryable=error.retryable, detail=error.detail)


def _resolver(waiting: "asyncio.Future[msgspec.Raw]") -> Callable[[RequestResult[msgspec.Raw]], None]:
    def resolve(answer: RequestResult[msgspec.Raw]) -> None:
        if waiting.done():
            return
        if answer.error is not None:
            waiting.set_exception(answer.error)
        elif answer.payload is not None:
            waiting.set_result(answer.payload)

    return resolve


_KINDS: dict[type[Shape], str] = {row.payload: kind for kind, row in REQUESTS.items()}
