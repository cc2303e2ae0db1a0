"""A client that shares no code with ours: the standard library on the socket, `websockets` on the WebSocket."""

import asyncio
import contextlib
import itertools
import json
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import websockets
from websockets.asyncio.client import ClientConnection

VERSION = "push.runtime.v1"
PATIENCE = 120.0

Message = dict[str, Any]


class ErrorResponse(Exception):
    """A request was refused."""

    def __init__(self, error: Message) -> None:
        super().__init__(f"{error['code']}: {error['message']}")
        self.code: str = error["code"]
        self.retryable: bool = error["retryable"]


class Transport(Protocol):
    async def send(self, line: bytes) -> None: ...

    async def receive(self) -> bytes | None: ...

    async def close(self) -> None: ...


class SocketTransport:
    """Lines on the Unix socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def connect(cls, path: Path) -> "SocketTransport":
        return cls(*await asyncio.open_unix_connection(str(path), limit=1 << 17))

    async def send(self, line: bytes) -> None:
        self.writer.write(line + b"\n")
        await self.writer.drain()

    async def receive(self) -> bytes | None:
        try:
            line = await self.reader.readline()
        except ConnectionError:
            return None
        return line if line.endswith(b"\n") else None

    async def close(self) -> None:
        self.writer.close()
        with contextlib.suppress(ConnectionError):
            await self.writer.wait_closed()


class WebSocketTransport:
    """Messages on the WebSocket."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection

    @classmethod
    async def connect(cls, url: str, token: str, trusted: ssl.SSLContext | None = None) -> "WebSocketTransport":
        headers = {"Authorization": f"Bearer {token}"}
        return cls(
            await websockets.connect(
                url, additional_headers=headers, max_size=1 << 24, ssl=trusted, proxy=None, close_timeout=1
            )
        )

    async def send(self, line: bytes) -> None:
        await self.connection.send(line.decode())

    async def receive(self) -> bytes | None:
        try:
            message = await self.connection.recv()
        except websockets.ConnectionClosed:
            return None
        return message.encode() if isinstance(message, str) else message

    async def close(self) -> None:
        await self.connection.close()


class WireClient:
    """Sends requests and receives events; what arrives while it waits for something else is kept in order."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self.events: list[Message] = []
        self.token = ""
        self._read = 0
        self._numbers = itertools.count(1)
        self._responses: dict[str, Message] = {}

    async def hello(self, name: str = "plain", capabilities: tuple[str, ...] = ("stream_tokens",)) -> Message:
        payload = {"clientName": name, "clientVersion": "1", "capabilities": list(capabilities)}
        return await self.ask("hello", payload)

    async def ask(self, kind: str, payload: Message | None = None, session_id: str | None = None) -> Message:
        """A request's response payload; an error response is raised."""
        response = await self.response(await self.put(kind, payload, session_id))
        if not response["ok"]:
            raise ErrorResponse(response["error"])
        return response["payload"]

    async def put(self, kind: str, payload: Message | None = None, session_id: str | None = None) -> str:
        """Send a request without waiting; returns its id."""
        request_id = f"req_plain.{next(self._numbers)}"
        payload = payload or {}
        envelope: Message = {"v": VERSION, "kind": "request", "requestId": request_id, "type": kind, "payload": payload}
        if session_id or "sessionId" in payload:
            envelope["sessionId"] = session_id or payload["sessionId"]
        await self.transport.send(json.dumps(envelope).encode())
        return request_id

    async def response(self, request_id: str) -> Message:
        while request_id not in self._responses:
            await self.receive()
        return self._responses.pop(request_id)

    async def wait_for(self, kind: str, where: Callable[[Message], bool] = lambda _: True) -> Message:
        """The next event of this type."""
        while True:
            while self._read < len(self.events):
                event = self.events[self._read]
                self._read += 1
                if event["type"] == kind and where(event["payload"]):
                    return event
            await self.receive()

    async def receive(self) -> Message:
        """The next line, whatever it is."""
        async with asyncio.timeout(PATIENCE):
            line = await self.transport.receive()
        if line is None:
            raise ConnectionResetError("the daemon closed the connection")
        message = json.loads(line)
        assert message["v"] == VERSION
        if message["kind"] == "event":
            self.events.append(message)
        else:
            self._responses[message["requestId"]] = message
        return message

    def forget(self) -> None:
        """Do not look again at what was received so far."""
        self.events.clear()
        self._read = 0

    async def ended(self) -> None:
        """Read until the daemon closes the connection."""
        try:
            while True:
                await self.receive()
        except ConnectionResetError:
            return

    async def close(self) -> None:
        await self.transport.close()
