"""One connection: a request is sent, then everything that arrives is the response to it.

Invariants: a connection carries one exchange at a time; a fast server is paused while nobody reads; bytes that arrive
without a request close the connection.
"""

import asyncio
import math
import select
from collections.abc import Sequence

from buddy.models.http.http1 import Response, TruncatedResponse
from buddy.models.http.wakeup_limiter import WakeupLimiter
from buddy.steps import parts as cut

MAX_BUFFERED = 1024 * 1024


class ReadTimeout(OSError):
    """The server sent nothing for too long."""


class HeaderTimeout(OSError):
    """The server sends bytes, but never completes its headers."""


class Connection(asyncio.Protocol):
    def __init__(self, idle_seconds: float) -> None:
        self.idle_seconds = idle_seconds
        self.limiter = WakeupLimiter()
        self.has_received = False
        self._transport: asyncio.Transport | None = None
        self._response: Response | None = None
        self._pieces: list[bytes] = []
        self._size = 0
        self._is_paused = False
        self._is_full = False
        self._is_cut = False
        self._failure: Exception | None = None
        self._waiter: asyncio.Future[bool] | None = None

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    @property
    def is_over(self) -> bool:
        """Whether the whole response has arrived and was read."""
        return not self._pieces and (self._response is None or self._response.is_complete)

    @property
    def is_idle(self) -> bool:
        """Whether it is open and the server sent nothing on it, not even its end, since the last response."""
        if self._transport is None or not self.is_open:
            return False
        # The event loop may not have run since the server closed the connection: ask the kernel.
        waiting = select.poll()
        waiting.register(self._transport.get_extra_info("socket").fileno(), select.POLLIN)
        return not waiting.poll(0)

    async def send(self, parts: Sequence[bytes], seconds: float = math.inf) -> Response:
        """Send a request; return the response once its headers are there, which may take `seconds`."""
        if self._transport is None or not self.is_open:
            raise TruncatedResponse("the connection was closed")
        response = Response()
        self._response, self.has_received = response, False
        await self._write(parts, response)
        now = asyncio.get_running_loop().time
        deadline = now() + seconds
        while not response.status:
            left = deadline - now()
            try:
                await self._wait(min(left, self.idle_seconds))
            except ReadTimeout as error:
                if left < self.idle_seconds:
                    raise HeaderTimeout("the model API did not finish the headers of its response") from error
                raise
        return response

    async def _write(self, parts: Sequence[bytes], response: Response) -> None:
        """Send a long request bit by bit; the rest of it is not sent if the response comes before its end."""
        assert self._transport is not None  # noqa: S101 - the caller has checked it
        if sum(map(len, parts)) <= MAX_BUFFERED:
            self._transport.writelines(parts)
            return
        for part in parts:
            for piece in cut(part):
                while self._is_full and not response.status:
                    await self._wait(self.idle_seconds)
                if response.status:
                    self._is_cut = True
                    return
                self._transport.write(piece)

    async def read(self, seconds: float | None = None) -> bytes:
        """All of the body that arrived since the last call, waiting for the first byte; empty at its end.

        ReadTimeout if nothing arrives for `seconds`, or for as long as this connection may be idle.
        """
        now = asyncio.get_running_loop().time
        deadline = math.inf if seconds is None else now() + seconds
        while not self._pieces:
            if self._response is None or self._response.is_complete:
                return b""
            await self._wait(min(deadline - now(), self.idle_seconds))
        return self._take()

    def release(self) -> bool:
        """Drop the response; return whether the connection can carry another one."""
        response, self._response = self._response, None
        self._take()
        is_over = response is not None and response.is_complete and response.is_reusable
        return self.is_open and is_over and not self._is_cut

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    async def _wait(self, seconds: float) -> None:
        if self._failure is not None:
            raise self._failure
        loop = asyncio.get_running_loop()
        waiter = self._waiter = loop.create_future()
        # A timer of our own: `asyncio.timeout` takes four times as long, and every turn waits here.
        timer = loop.call_later(seconds, _time_out, waiter)
        try:
            if not await waiter:
                raise ReadTimeout(f"the model API sent nothing for {seconds:g} s")
        finally:
            timer.cancel()
            self._waiter = None
        if self._failure is not None and not self._pieces:
            raise self._failure

    def _wake(self) -> None:
        if self._waiter is not None:
            waiter, self._waiter = self._waiter, None
            self.limiter.wake(waiter)

    def _take(self) -> bytes:
        pieces, self._pieces, self._size = self._pieces, [], 0
        if self._is_paused and self._transport is not None:
            self._is_paused = False
            self._transport.resume_reading()
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    # --- called by asyncio ------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - a stream connection always has one
        self._transport = transport

    def pause_writing(self) -> None:
        self._is_full = True

    def resume_writing(self) -> None:
        self._is_full = False
        self._wake()

    def data_received(self, data: bytes) -> None:
        if self._response is None:
            self.abort()
            return
        self.has_received = True
        try:
            piece = self._response.feed(data)
        except TruncatedResponse as error:
            self._fail(error)
            return
        if piece:
            self._pieces.append(piece)
            self._size += len(piece)
            if self._size > MAX_BUFFERED and self._transport is not None and not self._is_paused:
                self._is_paused = True
                self._transport.pause_reading()
        self._wake()

    def eof_received(self) -> None:
        if self._response is not None and not self._response.is_complete:
            try:
                self._response.end()
            except TruncatedResponse as error:
                self._fail(error)
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._response is not None and not self._response.is_complete and self._failure is None:
            self._failure = TruncatedResponse(str(exc or "the connection was closed"))
        self._wake()

    def _fail(self, error: Exception) -> None:
        self._failure = error
        self.abort()
        self._wake()


def _time_out(waiter: asyncio.Future[bool]) -> None:
    if not waiter.done():
        waiter.set_result(False)
