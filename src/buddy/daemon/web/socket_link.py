"""A peer on a WebSocket."""

import asyncio
import contextlib
from collections import deque

from starlette.websockets import WebSocket, WebSocketDisconnect

from buddy.daemon.limits import Limits
from buddy.daemon.link import LineTooLong

CLOSE_SECONDS = 1.0
TOO_BIG = 1009
"""The close code for a message that is too large."""


class ServerWebSocketLink:
    """Incoming messages have one or more lines; outgoing ones have one line each."""

    def __init__(self, websocket: WebSocket, limits: Limits) -> None:
        self.crowded = False
        self._websocket = websocket
        self._limits = limits
        self._lines: deque[bytes] = deque()
        self._taken = 0
        self._closed = asyncio.Event()
        self._close_code = 1000
        self._writing = asyncio.Lock()

    async def read_line(self) -> bytes | None:
        while not self._lines:
            receiving = asyncio.ensure_future(self._websocket.receive())
            closing = asyncio.ensure_future(self._closed.wait())
            done, _ = await asyncio.wait((receiving, closing), return_when=asyncio.FIRST_COMPLETED)
            closing.cancel()
            if receiving not in done:
                receiving.cancel()
                return None
            message = receiving.result()
            if message["type"] == "websocket.disconnect":
                self._closed.set()
                if message.get("code") == TOO_BIG:
                    raise LineTooLong
                return None
            text: str | None = message.get("text")
            data: bytes = message.get("bytes") or b""
            lines = (text.encode(errors="surrogatepass") if text is not None else data).split(b"\n")
            if any(len(line) > self._limits.frame for line in lines):
                self._close_code = TOO_BIG
                raise LineTooLong
            self._lines.extend(line for line in lines if line)
            self._taken = 0
        # Otherwise a peer with many buffered lines would not let other tasks run.
        await asyncio.sleep(0)
        self.crowded = self._taken >= self._limits.in_flight
        self._taken += 1
        return self._lines.popleft()

    async def write(self, lines: bytes) -> None:
        if self._closed.is_set():
            raise ConnectionResetError("the peer is gone")
        try:
            async with self._writing:
                for line in lines.splitlines():
                    async with asyncio.timeout(self._limits.stalled_seconds):
                        await self._websocket.send_text(line.decode())
        except (TimeoutError, RuntimeError, WebSocketDisconnect) as error:
            self.close()
            raise ConnectionResetError("the peer is gone") from error

    def close(self) -> None:
        self._closed.set()

    async def wait_ended(self, seconds: float) -> bool:
        """Wait until either side is done; False if neither was in this time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._closed.wait()
        return self._closed.is_set()

    async def wait_closed(self) -> None:
        """Wait until either side is done, then close the socket, whether or not the peer reads the close frame."""
        await self._closed.wait()
        with contextlib.suppress(RuntimeError, WebSocketDisconnect, TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._websocket.close(self._close_code)
