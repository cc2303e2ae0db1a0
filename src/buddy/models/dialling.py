"""Connections to one server: direct or through a proxy, with TLS where its address asks for it, kept for reuse.

What always holds:
- certificates are checked against those the system trusts (`SSL_CERT_FILE` and `SSL_CERT_DIR` replace them), which are
  read in a thread, once per process: while the first connection is made, or before, where it is known to come;
- a proxy is what `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY` say; a server on this machine has none;
- a connection carries one exchange at a time, and goes back only after an answer that was read to its end; it knows
  nothing of whose exchange it was, so that the next may be anybody's.
"""

import asyncio
import base64
import itertools
import math
import os
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, unquote, urlsplit

from msgspec import Struct

from buddy.models.http1 import Answer, Cut, request
from buddy.models.turnstile import Turnstile
from buddy.version import VERSION

if TYPE_CHECKING:
    import ssl

MAX_AHEAD = 1024 * 1024
KEPT = 128  # as many as there are runs at once
KEPT_SECONDS = 60.0
_HERE = ("127.0.0.1", "::1", "localhost")
_PORTS = {"http": 80, "https": 443}


class Address(Struct, frozen=True):
    """Where a server is; `path` is put before every request's own."""

    scheme: str
    host: str
    port: int
    path: str
    login: str = ""

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"


def parse_address(url: str) -> Address:
    """Take a URL apart; ValueError where it is none that can be called."""
    if not url.isprintable() or " " in url:
        raise ValueError("it has characters that no URL has")
    parts = urlsplit(url)
    if parts.scheme not in _PORTS or not parts.hostname:
        raise ValueError(f"{url!r} names no server" if parts.scheme in _PORTS else "it has another scheme")
    host = parts.hostname if parts.hostname.isascii() else parts.hostname.encode("idna").decode()
    path = parts.path.rstrip("/")
    if not path.isascii():
        raise ValueError("its path has letters that must be escaped")
    return Address(parts.scheme, host, parts.port or _PORTS[parts.scheme], path, _login(parts))


class NoConnection(OSError):
    """The server was not reached in time."""


class Silent(OSError):
    """The server sent nothing for too long."""


class Trickling(OSError):
    """The server sends bytes, but no whole head."""


class Pool:
    """Connections that are open and free, by where they lead; `close` ends them. Those in use share a turnstile."""

    def __init__(self) -> None:
        self.turnstile = Turnstile()
        self._free: dict[str, list[tuple[Connection, float]]] = {}

    def take(self, place: str) -> "Connection | None":
        free = self._free.get(place)
        while free:
            connection, since = free.pop()
            if connection.is_open and time.monotonic() - since < KEPT_SECONDS:
                return connection
            connection.abort()
        return None

    def give_back(self, place: str, connection: "Connection") -> None:
        """The exchange on it is over: keep it where another can follow, else end it."""
        free = self._free.setdefault(place, [])
        if not connection.rest() or len(free) >= KEPT:
            connection.abort()
        else:
            free.append((connection, time.monotonic()))

    def close(self) -> None:
        for connection, _ in itertools.chain.from_iterable(self._free.values()):
            connection.abort()
        self._free.clear()


class Server:
    """One server. Its free connections are in a pool of its own, which `close` ends, or in one that it is given."""

    def __init__(
        self,
        address: Address,
        *,
        connect_seconds: float,
        idle_seconds: float,
        head_seconds: float = math.inf,
        pool: Pool | None = None,
    ) -> None:
        self._address = address
        self._place = f"{address.scheme}://{address.authority}"
        self._connect_seconds = connect_seconds
        self._idle_seconds = idle_seconds
        self._head_seconds = head_seconds
        self._pool = pool or Pool()
        self._is_owner = pool is None

    async def ask(self, method: str, path: str, headers: Mapping[str, str], body: Sequence[bytes] = ()) -> "Call":
        """Send a request; give the answer once its head is there. OSError where that fails, ValueError for a header."""
        address, proxy = self._address, _proxy_of(self._address)
        target = f"{address.path}{path}"
        said = {"host": address.authority, "accept-encoding": "identity", "user-agent": f"buddy/{VERSION}", **headers}
        if address.login:
            said.setdefault("authorization", address.login)
        if proxy is not None and address.scheme == "http":
            # No tunnel is needed: the proxy is told the server, and itself proven to.
            target = f"http://{address.authority}{target}"
            said |= {"proxy-authorization": proxy.login} if proxy.login else {}
        data = request(method, target, said, body)
        while True:
            kept = self._pool.take(self._place)
            connection = kept or await self._dial(proxy)
            connection.idle_seconds, connection.turnstile = self._idle_seconds, self._pool.turnstile
            try:
                return Call(connection, await connection.send(data, self._head_seconds), self)
            except BaseException as error:
                connection.abort()
                # A server may end a connection it kept just when the next request goes out; it has not seen that one.
                if kept is None or connection.has_heard or not isinstance(error, ConnectionError):
                    raise

    async def _dial(self, proxy: Address | None) -> "Connection":
        try:
            async with asyncio.timeout(self._connect_seconds):
                return await _dial(self._address, proxy, self._idle_seconds)
        except TimeoutError as error:
            raise NoConnection(f"not within {self._connect_seconds:g} s") from error

    def give_back(self, connection: "Connection") -> None:
        self._pool.give_back(self._place, connection)

    def close(self) -> None:
        if self._is_owner:
            self._pool.close()


class Call:
    """An exchange whose answer has begun."""

    def __init__(self, connection: "Connection", answer: Answer, server: Server) -> None:
        self.status = answer.status
        self.headers = answer.headers
        self.read = connection.read
        self._connection: Connection | None = connection
        self._server = server

    def close(self) -> None:
        """End it, in whatever state it is; the connection is kept where the answer was read to its end."""
        if self._connection is not None:
            connection, self._connection = self._connection, None
            self._server.give_back(connection)


class Connection(asyncio.Protocol):
    """One connection: a request is sent, then what comes is the answer to it."""

    def __init__(self, idle_seconds: float) -> None:
        self.idle_seconds = idle_seconds
        self.turnstile = Turnstile()
        self._transport: asyncio.Transport | None = None
        self._answer: Answer | None = None
        self._pieces: list[bytes] = []
        self._size = 0
        self._is_paused = False
        self._broken: Exception | None = None
        self.has_heard = False
        self._waiter: asyncio.Future[bool] | None = None

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    async def send(self, parts: Sequence[bytes], seconds: float = math.inf) -> Answer:
        """Send a request; give the answer once its head is there, which must be whole within `seconds`."""
        answer = Answer()
        self._answer, self.has_heard = answer, False
        if self._transport is None or not self.is_open:
            raise Cut("the connection was closed")
        self._transport.writelines(parts)
        now = asyncio.get_running_loop().time
        deadline = now() + seconds
        while not answer.status:
            left = deadline - now()
            try:
                await self._wait(min(left, self.idle_seconds))
            except Silent as error:
                if left < self.idle_seconds:
                    raise Trickling("the model API did not finish the headers of its answer") from error
                raise
        return answer

    async def read(self, seconds: float | None = None) -> bytes:
        """All of the body that came since the last call, waiting for the first; empty at its end.

        Silent where nothing came for `seconds`, or for as long as this connection may be idle.
        """
        now = asyncio.get_running_loop().time
        deadline = math.inf if seconds is None else now() + seconds
        while not self._pieces:
            if self._answer is None or self._answer.is_done:
                return b""
            await self._wait(min(deadline - now(), self.idle_seconds))
        return self._take()

    def rest(self) -> bool:
        """Let go of the answer; whether the connection can carry another one."""
        answer, self._answer = self._answer, None
        self._take()
        return self.is_open and answer is not None and answer.is_done and answer.is_reusable

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    async def _wait(self, seconds: float) -> None:
        if self._broken is not None:
            raise self._broken
        loop = asyncio.get_running_loop()
        waiter = self._waiter = loop.create_future()
        # A timer of its own: `asyncio.timeout` takes four times as long, and there is a wait in every turn.
        giving_up = loop.call_later(seconds, _give_up, waiter)
        try:
            if not await waiter:
                raise Silent(f"no byte for {seconds:g} s")
        finally:
            giving_up.cancel()
            self._waiter = None
        if self._broken is not None and not self._pieces:
            raise self._broken

    def _wake(self) -> None:
        if self._waiter is not None:
            waiter, self._waiter = self._waiter, None
            self.turnstile.wake(waiter)

    def _take(self) -> bytes:
        pieces, self._pieces, self._size = self._pieces, [], 0
        if self._is_paused and self._transport is not None:
            self._is_paused = False
            self._transport.resume_reading()
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    # --- what asyncio calls -----------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - a stream connection has no other
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if self._answer is None:
            self.abort()  # nobody asked
            return
        self.has_heard = True
        try:
            piece = self._answer.feed(data)
        except Cut as error:
            self._break(error)
            return
        if piece:
            self._pieces.append(piece)
            self._size += len(piece)
            if self._size > MAX_AHEAD and self._transport is not None and not self._is_paused:
                self._is_paused = True
                self._transport.pause_reading()
        self._wake()

    def eof_received(self) -> None:
        if self._answer is not None and not self._answer.is_done:
            try:
                self._answer.end()
            except Cut as error:
                self._break(error)
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._answer is not None and not self._answer.is_done and self._broken is None:
            self._broken = Cut(str(exc or "the connection was closed"))
        self._wake()

    def _break(self, error: Exception) -> None:
        self._broken = error
        self.abort()
        self._wake()


def _give_up(waiter: asyncio.Future[bool]) -> None:
    if not waiter.done():
        waiter.set_result(False)


async def _dial(address: Address, proxy: Address | None, idle_seconds: float) -> Connection:
    trust = asyncio.create_task(asyncio.to_thread(trusted)) if address.scheme == "https" else None
    loop = asyncio.get_running_loop()
    place = proxy or address
    try:
        transport, connection = await loop.create_connection(
            lambda: Connection(idle_seconds), place.host, place.port, happy_eyeballs_delay=0.25
        )
        if trust is None:
            return connection
        try:
            if proxy is not None:
                await _open_tunnel(connection, address, proxy)
            secured = Connection(idle_seconds)
            transport = await loop.start_tls(transport, secured, await trust, server_hostname=address.host)
        except BaseException:
            connection.abort()
            raise
    finally:
        if trust is not None:
            trust.cancel()
    if transport is None:
        raise Cut("the connection was closed")
    secured.connection_made(transport)
    return secured


async def _open_tunnel(connection: Connection, address: Address, proxy: Address) -> None:
    place = f"{f'[{address.host}]' if ':' in address.host else address.host}:{address.port}"
    headers = {"host": place, **({"proxy-authorization": proxy.login} if proxy.login else {})}
    answer = await connection.send(request("CONNECT", place, headers))
    if answer.status != 200:
        raise ConnectionRefusedError(f"the proxy {proxy.authority} answered {answer.status}")


def expect(url: str) -> None:
    """This server will be asked: begin to read the certificates where it has TLS."""
    if url.startswith("https:"):
        threading.Thread(target=trusted, daemon=True).start()


def trusted() -> "ssl.SSLContext":
    with _reading:
        return certificates()


_reading = threading.Lock()


@cache
def certificates() -> "ssl.SSLContext":
    import ssl

    if sys.platform == "linux" or "SSL_CERT_FILE" in os.environ or "SSL_CERT_DIR" in os.environ:
        return ssl.create_default_context()
    import truststore  # the system's own store, which OpenSSL cannot read there

    return truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def _proxy_of(address: Address) -> Address | None:
    if address.host in _HERE or not any(name.lower().endswith("_proxy") for name in os.environ):
        return None
    from urllib.request import getproxies, proxy_bypass

    proxies = getproxies()
    url = proxies.get(address.scheme) or proxies.get("all")
    if not url or proxy_bypass(address.host):
        return None
    try:
        proxy = parse_address(url if "://" in url else f"http://{url}")
    except ValueError as error:
        raise OSError(f"the proxy of the environment cannot be used: {error}") from error
    if proxy.scheme != "http":
        raise OSError("the proxy of the environment is not an http:// one")
    return proxy


def _login(parts: SplitResult) -> str:
    if parts.username is None:
        return ""
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return f"Basic {base64.b64encode(pair.encode()).decode()}"
