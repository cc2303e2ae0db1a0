"""A small HTTP client for untrusted addresses: bounded in bytes, time and redirects, and pinned to checked addresses.

Invariants: a connection goes to an address that was checked, and to no other; each redirect is checked like the
first address; credentials are never sent; a body is cut by its decompressed size.
"""

import asyncio
import socket
import ssl
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any

import httpcore2
from httpcore2._backends.anyio import AnyIOBackend
from msgspec import Struct

from buddy.errors import ToolError
from buddy.tools.fetch.addresses import Url, parse_url, refuse_closed

MAX_BYTES = 2 * 1024 * 1024
MAX_SECONDS = 30.0
MAX_HOPS = 5
REDIRECTS = (301, 302, 303, 307, 308)
HEADERS = [(b"User-Agent", b"buddy-fetch/1"), (b"Accept", b"text/html,text/plain,*/*"), (b"Accept-Encoding", b"gzip")]

Resolve = Callable[[str, int], Awaitable[list[str]]]
Guard = Callable[[str, list[str]], None]


class Page(Struct, frozen=True):
    """A response; `truncated` if there was more."""

    url: str
    status: int
    content_type: str
    body: bytes
    truncated: bool = False


async def resolve(host: str, port: int) -> list[str]:
    """All addresses of a name."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise ToolError(f"no address for {host}: {error.strerror or error}") from error
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


class Fetcher:
    """`guard` refuses addresses; `allow` is called before each hop, so that rules apply to redirects, too."""

    def __init__(
        self,
        *,
        resolve: Resolve = resolve,
        guard: Guard = refuse_closed,
        max_bytes: int = MAX_BYTES,
        max_seconds: float = MAX_SECONDS,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        self._resolve = resolve
        self._guard = guard
        self._max_bytes = max_bytes
        self._max_seconds = max_seconds
        self._ssl_context = ssl_context

    async def get(self, text: str, check: Callable[[Url], None] = lambda _: None) -> Page:
        """Fetch a URL, following redirects."""
        try:
            async with asyncio.timeout(self._max_seconds):
                return await self._follow(parse_url(text), check)
        except TimeoutError:
            raise ToolError(f"no page within {self._max_seconds:g} s", code="EXEC_TIMEOUT", retryable=True) from None

    async def _follow(self, url: Url, check: Callable[[Url], None]) -> Page:
        backend = _Pinned(self._resolve, self._guard)
        async with httpcore2.AsyncConnectionPool(network_backend=backend, ssl_context=self._ssl_context) as pool:
            for _ in range(MAX_HOPS + 1):
                check(url)
                page, next_text = await self._once(pool, url)
                if next_text is None:
                    return page
                url = _next_hop(url, next_text)
        raise ToolError(f"more than {MAX_HOPS} redirects; the last was to {url}")

    async def _once(self, pool: httpcore2.AsyncConnectionPool, url: Url) -> tuple[Page, str | None]:
        headers = [(b"Host", url.netloc.encode()), *HEADERS]
        try:
            async with pool.stream("GET", str(url), headers=headers) as response:
                fields = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers}
                if response.status in REDIRECTS and "location" in fields:
                    return Page(str(url), response.status, "", b""), fields["location"]
                body, truncated = await self._body(response.aiter_stream(), fields.get("content-encoding", ""))
        except (httpcore2.NetworkError, httpcore2.ProtocolError, httpcore2.TimeoutException, ssl.SSLError) as error:
            raise ToolError(
                f"{url.host} did not answer properly: {error or type(error).__name__}", retryable=True
            ) from error
        return Page(str(url), response.status, fields.get("content-type", ""), body, truncated), None

    async def _body(self, chunks: AsyncIterator[bytes], encoding: str) -> tuple[bytes, bool]:
        unpack = _unpacker(encoding.strip().lower())
        body = bytearray()
        async for chunk in chunks:
            body += unpack(chunk, self._max_bytes + 1 - len(body))
            if len(body) > self._max_bytes:
                return bytes(body[: self._max_bytes]), True
        return bytes(body), False


class _Pinned(httpcore2.AsyncNetworkBackend):
    """Connects only to addresses that were checked, even if the name resolves differently a moment later."""

    def __init__(self, resolve: Resolve, guard: Guard) -> None:
        self._resolve = resolve
        self._guard = guard
        self._inner: httpcore2.AsyncNetworkBackend = AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        found = await self._resolve(host, port)
        self._guard(host, found)
        problem: Exception | None = None
        for address in found[:4]:
            try:
                return await self._inner.connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                problem = error
        raise problem or httpcore2.ConnectError(f"{host} has no address")

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def _next_hop(url: Url, location: str) -> Url:
    from urllib.parse import urljoin

    found = parse_url(urljoin(str(url), location.strip()))
    if url.scheme == "https" and found.scheme == "http":
        raise ToolError(f"{url.host} redirects from https to http; that is not followed")
    return found


def _unpacker(encoding: str) -> Callable[[bytes, int], bytes]:
    """Decompress up to a limit per call, so that a small body cannot become a large one."""
    if encoding in ("", "identity"):
        return lambda chunk, limit: chunk[:limit]
    if encoding not in ("gzip", "x-gzip", "deflate"):
        raise ToolError(f"the page is encoded as {encoding[:20]}, which was not asked for")
    inflate = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)

    def unpack(chunk: bytes, limit: int) -> bytes:
        try:
            return inflate.decompress(chunk, max(limit, 1))
        except zlib.error as error:
            raise ToolError(f"the page's compression is broken: {error}") from error

    return unpack
