"""HTTP with bounds: on the time to send a request, and on the number of peers that have shown no token.

Invariants: a connection that sends nothing, or a request bit by bit, is cut; one that loads files, or reads a response
slowly, is not; past the bound on their number, the one that has been idle longest goes.
"""

import asyncio
from typing import ClassVar

from uvicorn.protocols.http.h11_impl import H11Protocol

from buddy.daemon.limits import Limits
from buddy.daemon.waiting_peers import WaitingPeers


class BoundedHttp(H11Protocol):
    limits: ClassVar[Limits]
    waiting: ClassVar[WaitingPeers]

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] - the base class types it as a plain transport
        super().connection_made(transport)
        self._address = self.client or ("", 0)
        self._timer: asyncio.TimerHandle | None = None
        self._unsent = 0
        self.waiting.add(self._address, transport)
        self._expect_request()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self.waiting.discard(self._address)
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        self.waiting.touch(self._address)
        self._expect_request()
        super().on_response_complete()

    def _expect_request(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.loop.call_later(self.limits.hello_seconds, self._end_waiting)

    def _end_waiting(self) -> None:
        transport = self.transport
        if transport.get_protocol() is not self:
            return  # it is a WebSocket now
        unsent, before = transport.get_write_buffer_size(), self._unsent
        self._unsent = unsent
        if self._is_answering() or (unsent and unsent != before):
            self._expect_request()
        else:
            transport.abort()

    def _is_answering(self) -> bool:
        """Whether the request is complete, and its response is not."""
        cycle = self.cycle
        return bool(cycle) and not cycle.response_complete and not cycle.more_body  # none before the first request


def bounded_http(limits: Limits, waiting: WaitingPeers) -> type[asyncio.Protocol]:
    """The protocol of one listener; the server makes its instances."""
    return type("BoundedHttp", (BoundedHttp,), {"limits": limits, "waiting": waiting})
