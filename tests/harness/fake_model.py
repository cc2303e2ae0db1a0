"""A model API on loopback for tests: a real HTTP/1.1 server that answers as instructed.

    async with FakeModel([Answer(says("Hello")), Answer(status=429, body=b"slow down")]) as model:
        provider = Completions("test", model.base_url, "key", "m", 8192)
        ...
        assert model.requests[0].body["stream"] is True

Each request takes the next `Answer`; a request past the last one is answered with status 500. Instead of a list, a
function from the request to its answer may be given. `says` and `calls` make the chunks of ordinary replies of Chat
Completions; for cases that hold for every wire, see `dialects.py`.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, Self

import msgspec
from msgspec import Struct

from tests.harness.processes import PATIENCE

Chunk = dict[str, Any]


class Request(Struct, frozen=True):
    """A request as it came: names of headers in lower case, `at` on the monotonic clock."""

    path: str
    headers: dict[str, str]
    raw: bytes
    at: float

    @property
    def body(self) -> dict[str, Any]:
        return msgspec.json.decode(self.raw, type=dict[str, Any])


class Answer(Struct, frozen=True):
    """What to answer. `chunks` become server-sent events (text as it is, anything else as JSON); `body` replaces them.

    `cut_at` ends the connection after this many bytes of the body; `framing="close"` sends no length, so that such an
    end looks clean; `hang` stops for good before the headers or after the body; `gate` is awaited before the event
    `gate_at`; `gaps` are how many of the first pieces are followed by how long a wait; `slow_head` is the wait after
    each byte of the headers; `drop` closes the connection once the request was read.
    """

    chunks: Sequence[Chunk | str] = ()
    status: int = 200
    headers: Mapping[str, str] = {}
    body: bytes | None = None
    done: bool = True
    newline: str = "\n"
    comments: bool = False
    byte_by_byte: bool = False
    cut_at: int | None = None
    framing: Literal["chunked", "close"] = "chunked"
    delay: float = 0.0
    hang: Literal["", "headers", "body"] = ""
    gate: asyncio.Event | None = None
    gate_at: int = 1
    gaps: tuple[int, float] = (0, 0.0)
    slow_head: float = 0.0
    drop: bool = False

    def frames(self) -> list[bytes]:
        """The body, one piece per event."""
        if self.body is not None:
            return [self.body]
        frames = [self._frame(chunk) for chunk in self.chunks]
        return [*frames, self._frame("[DONE]")] if self.done else frames

    def _frame(self, chunk: Chunk | str) -> bytes:
        data = chunk if isinstance(chunk, str) else msgspec.json.encode(chunk).decode()
        comment = f": keep-alive{self.newline * 2}" if self.comments else ""
        event = f"event: {chunk['type']}{self.newline}" if isinstance(chunk, dict) and "type" in chunk else ""
        return f"{comment}{event}data: {data}{self.newline * 2}".encode()


def says(text: str, *, finish: str | None = "stop", usage: Chunk | None = None) -> list[Chunk]:
    """The chunks of a reply in words."""
    *words, last = text.split(" ")
    chunks = [delta(content=word) for word in [*(f"{word} " for word in words), last]]
    return [*chunks, *ending(finish, usage)]


def calls(*wanted: tuple[str, str], finish: str | None = "tool_calls") -> list[Chunk]:
    """The chunks of a reply that calls tools: pairs of a name and the text of its arguments."""
    deltas = [
        delta(tool_calls=[{"index": at, "id": f"id_{at}", "function": {"name": name, "arguments": arguments}}])
        for at, (name, arguments) in enumerate(wanted)
    ]
    return [*deltas, *ending(finish, None)]


def answer_to(request: Request, chunks: list[Chunk]) -> Answer:
    """The reply to a conversation; this server has no list of models."""
    return Answer(status=404, body=b"{}") if request.path.endswith("/models") else Answer(chunks)


def delta(**fields: object) -> Chunk:
    return {"id": "c", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": fields}]}


def ending(finish: str | None, usage: Chunk | None) -> list[Chunk]:
    chunks: list[Chunk] = [{"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}] if finish else []
    return [*chunks, {"choices": [], "usage": usage}] if usage else chunks


class FakeModel:
    """The server; `requests` grows as they come, `hung_up` counts connections that the client ended."""

    def __init__(self, script: Sequence[Answer] | Callable[[Request], Answer]) -> None:
        self._script = script
        self._server: asyncio.Server | None = None
        self._handlers: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Condition()
        self.requests: list[Request] = []
        self.connections = 0
        self.hung_up = 0
        self.base_url = ""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.base_url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for handler in self._handlers:
            handler.cancel()
        await asyncio.gather(*self._handlers, return_exceptions=True)
        await self._server.wait_closed()

    async def wait_requests(self, count: int) -> None:
        """Wait for this number of requests."""
        await self._wait(lambda: len(self.requests) >= count)

    async def wait_hung_up(self) -> None:
        """Wait until the client ended a connection."""
        await self._wait(lambda: self.hung_up > 0)

    async def _wait(self, met: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE), self._changed:
            await self._changed.wait_for(met)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        handler = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._handlers.add(handler)
        handler.add_done_callback(self._handlers.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            ahead: bytes | None = b""
            while ahead is not None:
                ahead = await self._exchange(ahead, reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            self.hung_up += 1
        finally:
            writer.close()
        async with self._changed:
            self._changed.notify_all()

    async def _exchange(self, ahead: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes | None:
        """Answer one request; returns what was read of the next one, or None when the connection is over."""
        request = await _read_request(ahead, reader)
        answer = self._answer(request)
        async with self._changed:
            self.requests.append(request)
            self._changed.notify_all()
        # Reading on while sending is how a server learns that the client hung up.
        next_byte = asyncio.ensure_future(reader.read(1))
        sending = asyncio.ensure_future(_send(writer, answer))
        try:
            await asyncio.wait([next_byte, sending], return_when=asyncio.FIRST_COMPLETED)
            if not sending.done() and not next_byte.result():
                raise ConnectionResetError("the client hung up")
            is_reusable = await sending
        finally:
            next_byte.cancel()
            sending.cancel()
            await asyncio.gather(next_byte, sending, return_exceptions=True)
        if not is_reusable:
            return None
        return b"" if next_byte.cancelled() else next_byte.result()

    def _answer(self, request: Request) -> Answer:
        if callable(self._script):
            return self._script(request)
        at = len(self.requests)
        return self._script[at] if at < len(self._script) else Answer(status=500, body=b"the script is over")


async def _read_request(ahead: bytes, reader: asyncio.StreamReader) -> Request:
    head = (ahead + await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
    raw = await reader.readexactly(int(headers.get("content-length", "0")))
    return Request(head[0].split(" ")[1], headers, raw, time.monotonic())


async def _send(writer: asyncio.StreamWriter, answer: Answer) -> bool:
    """Send the answer; returns whether the connection can be reused."""
    if answer.drop:
        return False
    if answer.hang == "headers":
        await asyncio.Event().wait()
    await _send_head(writer, answer)
    left = answer.cut_at
    for at, piece in enumerate(_pieces(answer)):
        if answer.gate is not None and at == answer.gate_at:
            await answer.gate.wait()
        sent = piece if left is None else piece[:left]
        writer.write(b"%x\r\n%b\r\n" % (len(sent), sent) if answer.framing == "chunked" and sent else sent)
        await writer.drain()
        if left is not None and (left := left - len(sent)) <= 0:
            return False
        if wait := answer.delay or (answer.gaps[1] if at < answer.gaps[0] else 0.0):
            await asyncio.sleep(wait)
    if answer.hang == "body":
        await asyncio.Event().wait()
    writer.write(b"0\r\n\r\n" if answer.framing == "chunked" else b"")
    await writer.drain()
    return answer.framing == "chunked"


async def _send_head(writer: asyncio.StreamWriter, answer: Answer) -> None:
    head = _head(answer)
    if not answer.slow_head:
        writer.write(head)
        return
    for byte in head:
        writer.write(bytes([byte]))
        await writer.drain()
        await asyncio.sleep(answer.slow_head)


def _pieces(answer: Answer) -> list[bytes]:
    frames = answer.frames()
    return [bytes([byte]) for frame in frames for byte in frame] if answer.byte_by_byte else frames


def _head(answer: Answer) -> bytes:
    kind = "text/event-stream" if answer.body is None else "application/json"
    framing = {"transfer-encoding": "chunked"} if answer.framing == "chunked" else {"connection": "close"}
    headers = {"content-type": kind, **framing, **answer.headers}
    lines = [f"HTTP/1.1 {answer.status} Answer", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode()
