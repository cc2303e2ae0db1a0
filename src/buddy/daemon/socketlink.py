"""A peer on a stream socket: bytes in, lines out of them; lines in, bytes out.

Invariants: buffers are bounded in both directions. A line that exceeds the limit ends the connection with an error; a
peer that reads nothing for too long is disconnected; nobody else waits for either.
"""

import asyncio
from collections import deque
from typing import cast

from buddy.daemon.limits import Limits
from buddy.daemon.link import LineTooLong

LINES_AHEAD = 256
CLOSE_SECONDS = 1.0


class ServerSocketLink(asyncio.Protocol):
    def __init__(self, limits: Limits) -> None:
        self.peer_gone = asyncio.Event()
        self._limits = limits
        self._transport: asyncio.Transport | None = None
        self.crowded = False
        self._lines: deque[tuple[bytes, bool]] = deque()
        self._partial: list[bytes] = []
        self._partial_size = 0
        self._too_long = False
        self._ended = False
        self._leaving = False
        self._loop = asyncio.get_running_loop()
        self._reader: asyncio.Future[None] | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._paused = False

    # --- the link ---------------------------------------------------------------------------------------------------

    async def read_line(self) -> bytes | None:
        if self._lines:
            # Otherwise a peer with many buffered lines would not let other tasks run.
            await asyncio.sleep(0)
        while not self._lines:
            if self._too_long:
                raise LineTooLong
            if self._ended:
                return None
            self._reader = self._loop.create_future()
            await self._reader
        line, self.crowded = self._lines.popleft()
        if self._paused and len(self._lines) < LINES_AHEAD // 2 and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()
        return line

    async def write(self, lines: bytes) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            raise ConnectionResetError("the peer is gone")
        transport.write(lines)
        while not self._writable.is_set():
            await self._drain(transport)

    def close(self) -> None:
        """What was written is still sent, unless the peer does not read it."""
        transport = self._transport
        if transport is None or transport.is_closing() or self._leaving:
            return
        self._leaving = True
        asyncio.get_running_loop().call_later(CLOSE_SECONDS, transport.abort)
        if self._too_long and not self._ended:
            # The peer is still sending: closing now would reset the connection before it could read why.
            transport.write_eof()
        else:
            transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    async def _drain(self, transport: asyncio.Transport) -> None:
        """Wait for the peer to read; one that reads nothing for too long is disconnected."""
        before = transport.get_write_buffer_size()
        try:
            async with asyncio.timeout(self._limits.stalled_seconds):
                await self._writable.wait()
        except TimeoutError:
            if transport.get_write_buffer_size() >= before:
                transport.abort()
                raise ConnectionResetError("the peer read nothing for too long") from None
        if transport.is_closing():
            raise ConnectionResetError("the peer is gone")

    # --- asyncio.Protocol -------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # a stream protocol is given a stream transport
        self._transport.set_write_buffer_limits(high=self._limits.outbound // 4)

    def data_received(self, data: bytes) -> None:
        if self._too_long:
            return
        *complete, rest = data.split(b"\n")
        for end in complete:
            line = b"".join((*self._partial, end)) if self._partial else end
            self._partial, self._partial_size = [], 0
            if self._is_over(len(line)):
                return
            if line:
                self._lines.append((line, len(self._lines) >= self._limits.in_flight))
        if rest:
            self._partial.append(rest)
            self._partial_size += len(rest)
            if self._is_over(self._partial_size):
                return
        self._wake()
        if len(self._lines) > LINES_AHEAD and self._transport is not None and not self._paused:
            self._paused = True
            self._transport.pause_reading()

    def _wake(self) -> None:
        """Let the reader look again."""
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    def _is_over(self, size: int) -> bool:
        if size <= self._limits.frame:
            return False
        self._too_long = True
        self._partial = []
        self._wake()
        return True

    def eof_received(self) -> bool:
        self._ended = True
        self._wake()
        if self._leaving and self._transport is not None:
            self._transport.close()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._ended = True
        self._wake()
        self._writable.set()
        self.peer_gone.set()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()
