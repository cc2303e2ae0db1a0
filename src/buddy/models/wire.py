"""One HTTP connection pool to one model API: a request out, what arrives in as few pieces as it can.

What always holds:
- every failure is a `ProviderError`, and the key is in none of them;
- leaving `post`, in whatever way, ends the exchange: the connection is closed or back in the pool;
- a server that sends nothing is given up after `idle_timeout`; one that trickles bytes without ever ending a line (or
  its headers) after `SLOWEST` times as long, while blank lines and comments keep an exchange alive;
- the HTTP library is loaded by the first request, not before.
"""

import asyncio
import hashlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from buddy.errors import ProviderError
from buddy.models.credentials import ApiKey, Credentials
from buddy.models.refusals import refused

if TYPE_CHECKING:
    import httpx2

CONNECT_TIMEOUT = 30.0
MAX_REFUSAL = 64 * 1024
MAX_AHEAD = 1024 * 1024
SLOWEST = 2.0


class Broken(ProviderError):
    """The connection ended before the answer did."""


class Wire:
    """Speaks HTTP for a provider; `api` names the protocol for the hints."""

    def __init__(
        self,
        base_url: str,
        api_key: str | Credentials,
        *,
        api: str,
        idle_timeout: float = 120.0,
        client: "httpx2.AsyncClient | None" = None,
    ) -> None:
        self._base_url = base_url.rstrip("/")
        self._credentials = ApiKey(api_key) if isinstance(api_key, str) else api_key
        self._key = ""
        self._api = api
        self._idle_timeout = idle_timeout
        self._client = client
        self._owned: httpx2.AsyncClient | None = None

    @asynccontextmanager
    async def post(self, path: str, body: bytes) -> "AsyncGenerator[Answer]":
        """Send a JSON body; give the answer once its headers are there, or raise what its status means."""
        response = await self._send_allowed(path, body)
        answer = Answer(response, self)
        try:
            if response.status_code != 200:
                said = await answer.read_some(MAX_REFUSAL)
                raise refused(response.status_code, response.headers, said, self._api)
            yield answer
        except ProviderError as error:
            self._without_key(error)
            raise
        finally:
            await answer.close()

    async def close(self) -> None:
        """Close the pool that was made here; a client that was passed in belongs to who made it."""
        if self._owned is not None:
            owned, self._owned = self._owned, None
            await owned.aclose()

    async def _send_allowed(self, path: str, body: bytes) -> "httpx2.Response":
        """Send, and once more with newer credentials where there are any; a second refusal is theirs to explain."""
        response = await self._send(path, body)
        for _ in range(2):
            if response.status_code != 401:
                break
            try:
                if not await self._credentials.refused():
                    break
            except BaseException:
                await response.aclose()
                raise
            await response.aclose()
            response = await self._send(path, body)
        return response

    async def _send(self, path: str, body: bytes) -> "httpx2.Response":
        import httpx2

        client = self._client or self._open()
        proof = await self._credentials.headers()
        self._key = proof.get("authorization", "").removeprefix("Bearer ")
        headers = {"content-type": "application/json", "accept": "text/event-stream, application/json", **proof}
        try:
            request = client.build_request(
                "POST", self._base_url + path, content=body, headers=headers, timeout=self._timeouts()
            )
            async with asyncio.timeout(CONNECT_TIMEOUT + self.line_patience):
                return await client.send(request, stream=True)
        except TimeoutError as error:
            raise ProviderError("the model API did not finish the headers of its answer", retryable=True) from error
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            raise self._without_key(self.trouble(error)) from error

    def _open(self) -> "httpx2.AsyncClient":
        import ssl

        import httpx2

        if self._owned is None:
            limits = httpx2.Limits(max_connections=None, max_keepalive_connections=20, keepalive_expiry=60.0)
            # Reading all trusted certificates takes some 20 ms, which a server without TLS need not cost.
            verify = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if self._base_url.startswith("http:") else True
            self._owned = httpx2.AsyncClient(limits=limits, verify=verify)
        return self._owned

    def _timeouts(self) -> "httpx2.Timeout":
        import httpx2

        return httpx2.Timeout(self._idle_timeout, connect=CONNECT_TIMEOUT)

    @property
    def origin(self) -> str:
        """A name for this server: what only it understands is marked with it, and goes back to no other."""
        return hashlib.sha256(self._base_url.encode()).hexdigest()[:16]

    @property
    def line_patience(self) -> float:
        """How long a line of an answer may take."""
        return SLOWEST * self._idle_timeout

    def trouble(self, error: Exception) -> ProviderError:
        """What a failure of the transport means."""
        import httpx2

        told = str(error) or type(error).__name__
        match error:
            case httpx2.InvalidURL() | httpx2.UnsupportedProtocol():
                hint = "base_url starts with https:// or http://"
                return ProviderError(f"base_url is not a URL that can be called: {told}", retryable=False, hint=hint)
            case httpx2.ConnectTimeout() | httpx2.PoolTimeout():
                return ProviderError(f"no connection to the model API within {CONNECT_TIMEOUT:g} s", retryable=True)
            case httpx2.TimeoutException():
                return ProviderError(f"no byte for {self._idle_timeout:g} s", retryable=True)
            case httpx2.ConnectError():
                return ProviderError(f"no connection to the model API: {told}", retryable=True)
            case _:
                return Broken(f"the connection to the model API broke: {told}", retryable=True)

    def _without_key(self, error: ProviderError) -> ProviderError:
        """The same error, of the same type, without the key."""
        if self._key:
            error.args = (str(error).replace(self._key, "[key]"),)
            error.hint = error.hint.replace(self._key, "[key]")
        return error


class Answer:
    """An answer whose headers are there; its body is read ahead by a task of its own, which `close` ends.

    The HTTP library gives one piece per HTTP chunk, and hands out those that came in one network read without ever
    waiting. The task collects them, so that a burst of a thousand chunks is one batch here.
    """

    def __init__(self, response: "httpx2.Response", wire: Wire) -> None:
        self._response = response
        self._wire = wire
        self._chunks: list[bytes] = []
        self._size = 0
        self._arrived = asyncio.Event()
        self._taken = asyncio.Event()
        self._reader: asyncio.Task[None] | None = None
        self._patience = wire.line_patience

    @property
    def content_type(self) -> str:
        return self._response.headers.get("content-type", "").partition(";")[0].strip().lower()

    async def batch(self) -> bytes | None:
        """All bytes that came since the last call, waiting for the first; None at the end of the body."""
        if self._reader is None:
            self._reader = asyncio.create_task(self._read())
        await self._wait()
        if self._chunks:
            got = self._take()
            if b"\n" in got or b"\r" in got:
                self._patience = self._wire.line_patience
            return got
        await self._reader  # at its end; raises what broke it
        return None

    async def read_some(self, limit: int) -> bytes:
        """The body up to about `limit` bytes; what came is kept when the connection breaks."""
        got = b""
        with suppress(ProviderError):
            while len(got) < limit and (more := await self.batch()) is not None:
                got += more
        return got

    async def close(self) -> None:
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.wait([self._reader])
            if not self._reader.cancelled():
                self._reader.exception()  # seen here, or asyncio would report it as never retrieved
        await self._response.aclose()

    async def _wait(self) -> None:
        """Wait for bytes or the end; only the time spent here counts, not how long the reader of the pieces took."""
        if self._arrived.is_set():
            return
        now = asyncio.get_running_loop().time
        began = now()
        try:
            async with asyncio.timeout(self._patience):
                await self._arrived.wait()
        except TimeoutError as error:
            raise ProviderError("the model API sends bytes, but no whole line of them", retryable=True) from error
        self._patience -= now() - began

    def _take(self) -> bytes:
        got = b"".join(self._chunks)
        self._chunks.clear()
        self._size = 0
        self._taken.set()
        if self._reader is not None and not self._reader.done():
            self._arrived.clear()
        return got

    async def _read(self) -> None:
        import httpx2

        try:
            async for chunk in self._response.aiter_bytes():
                self._chunks.append(chunk)
                self._size += len(chunk)
                self._arrived.set()
                if self._size > MAX_AHEAD:
                    self._taken.clear()
                    await self._taken.wait()
        except (httpx2.HTTPError, httpx2.StreamError, OSError) as error:
            raise self._wire.trouble(error) from error
        finally:
            self._arrived.set()
