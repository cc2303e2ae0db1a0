"""Requests to one server, over connections that are reused.

Invariants: a POST is written to one connection, once: if that is lost before the response, the server may have acted on
it, so the failure is the caller's to retry or report. Only a GET is sent again by itself, and only after a reused
connection ended without a byte of a response.
"""

import asyncio
import math
from collections.abc import Mapping, Sequence

from msgspec import Struct

from buddy.models.http.address import Address, find_proxy
from buddy.models.http.connection import Connection
from buddy.models.http.dial import open_connection
from buddy.models.http.http1 import Response, add_body, encode_head
from buddy.models.http.pool import Pool
from buddy.version import VERSION


class ConnectTimeout(OSError):
    """The server was not reached in time."""


class Timeouts(Struct, frozen=True):
    """In seconds: until a connection is open, until the next byte arrives, until the headers are complete."""

    connect: float
    idle: float
    headers: float = math.inf


class HttpClient:
    """Calls one server. Idle connections are in a pool of its own, which `close` ends, or in a shared one."""

    def __init__(self, address: Address, timeouts: Timeouts, pool: Pool | None = None) -> None:
        self._address = address
        self._origin = f"{address.scheme}://{address.authority}"
        self._timeouts = timeouts
        self._pool = pool or Pool()
        self._owns_pool = pool is None
        self._head: _Head | None = None

    async def request(
        self, method: str, path: str, headers: Mapping[str, str], body: Sequence[bytes] = ()
    ) -> "ResponseStream":
        """Send a request; return the response once its headers are there. OSError if that fails, ValueError for a
        header that can't be sent."""
        proxy = find_proxy(self._address)
        data = self._encode(method, path, headers, body, proxy)
        while True:
            reused = self._pool.take(self._origin)
            connection = reused or await self._dial(proxy)
            connection.idle_seconds, connection.limiter = self._timeouts.idle, self._pool.limiter
            try:
                response = await connection.send(data, self._timeouts.headers)
                return ResponseStream(connection, response, self)
            except BaseException as error:
                connection.abort()
                is_lost = isinstance(error, ConnectionError) and not connection.has_received
                if not (is_lost and reused is not None and method == "GET"):
                    raise

    def give_back(self, connection: Connection) -> None:
        self._pool.give_back(self._origin, connection)

    def close(self) -> None:
        if self._owns_pool:
            self._pool.close()

    def _encode(
        self, method: str, path: str, headers: Mapping[str, str], body: Sequence[bytes], proxy: Address | None
    ) -> list[bytes]:
        known = self._head
        if known is not None and known.headers is headers and known.is_for(method, path, proxy):
            return add_body(known.head, method, body)
        address = self._address
        target = f"{address.path}{path}"
        sent = {"host": address.authority, "accept-encoding": "identity", "user-agent": f"buddy/{VERSION}", **headers}
        if address.login:
            sent.setdefault("authorization", address.login)
        if proxy is not None and address.scheme == "http":
            # Without TLS there is no tunnel: the request names the server, and carries the login for the proxy.
            target = f"http://{address.authority}{target}"
            sent |= {"proxy-authorization": proxy.login} if proxy.login else {}
        self._head = _Head(encode_head(method, target, sent), method, path, headers, proxy)
        return add_body(self._head.head, method, body)

    async def _dial(self, proxy: Address | None) -> Connection:
        try:
            async with asyncio.timeout(self._timeouts.connect):
                return await open_connection(self._address, proxy, self._timeouts.idle)
        except TimeoutError as error:
            raise ConnectTimeout(f"not within {self._timeouts.connect:g} s") from error


class _Head(Struct, frozen=True):
    """The encoded head of the last request: the next one has the same, unless its login was renewed."""

    head: bytes
    method: str
    path: str
    headers: Mapping[str, str]
    proxy: Address | None

    def is_for(self, method: str, path: str, proxy: Address | None) -> bool:
        return (self.method, self.path, self.proxy) == (method, path, proxy)


class ResponseStream:
    """A response whose headers are there and whose body is still arriving."""

    def __init__(self, connection: Connection, response: Response, client: HttpClient) -> None:
        self.status = response.status
        self.headers = response.headers
        self.read = connection.read
        self._connection: Connection | None = connection
        self._client = client

    @property
    def is_over(self) -> bool:
        """Whether the whole body has arrived and was read."""
        return self._connection is None or self._connection.is_over

    def close(self) -> None:
        """End the exchange in any state; the connection is kept if the response was read to its end."""
        if self._connection is not None:
            connection, self._connection = self._connection, None
            self._client.give_back(connection)
