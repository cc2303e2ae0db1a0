"""Servers on loopback, and a client that may talk to them."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

from buddy.tools.fetch.client import Fetcher

Answer = Callable[[str, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def serving(answer: Answer) -> AsyncGenerator[int, None]:
    """A server on loopback; `answer` is given the request's head."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            await answer(head, writer)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


def reply(body: bytes, *headers: str, status: str = "200 OK", kind: str = "text/plain") -> bytes:
    fields = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", f"Content-Type: {kind}", *headers]
    return "\r\n".join(fields).encode() + b"\r\n\r\n" + body


async def loopback(_host: str, _port: int) -> list[str]:
    return ["127.0.0.1"]


def open_guard(_host: str, _found: list[str]) -> None:
    """Loopback is closed in the product; these tests have nothing else to talk to."""


def fetcher(**options: float) -> Fetcher:
    return Fetcher(
        resolve=loopback,
        guard=open_guard,
        max_bytes=int(options.get("max_bytes", 1000)),
        max_seconds=options.get("max_seconds", 10.0),
    )
