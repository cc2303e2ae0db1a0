"""One HTTP connection pool to one model API: a request out, what arrives in as few pieces as it can.

What always holds:
- every failure is a `ProviderError`, and the key is in none of them;
- leaving `post`, in whatever way, ends the exchange: the connection is closed or back in the pool;
- the HTTP library is loaded by the first request, not before.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from buddy.errors import ProviderError, UserError
from buddy.models.refusals import refused

if TYPE_CHECKING:
    import httpx2

CONNECT_TIMEOUT = 30.0
MAX_REFUSAL = 64 * 1024
MAX_AHEAD = 1024 * 1024


class Broken(ProviderError):
    """The connection ended before the answer did."""


class Wire:
    """Speaks HTTP for a provider; `api` names the protocol for the hints."""

    def __init__(
        self,
        base_url: str,
        api_key: str,
        *,
        api: str,
        idle_timeout: float = 120.0,
        client: "httpx2.AsyncClient | None" = None,
    ) -> None:
        self._base_url = base_url.rstrip("/")
        self._key = _checked(api_key)
        self._api = api
        self._idle_timeout = idle_timeout
        self._client = client
        self._owned: httpx2.AsyncClient | None = None

    @asynccontextmanager
    async def post(self, path: str, body: bytes) -> "AsyncGenerator[Answer]":
        """Send a JSON body; give the answer once its headers are there, or raise what its status means."""
        response = await self._send(path, body)
        answer = Answer(response, self)
        try:
            if response.status_code != 200:
                said = await answer.read_some(MAX_REFUSAL)
                raise self._without_key(refused(response.status_code, response.headers, said, self._api))
            yield answer
        except ProviderError as error:
            raise self._without_key(error) from error.__cause__
        finally:
            await answer.close()

    async def close(self) -> None:
        """Close the pool that was made here; a client that was passed in belongs to who made it."""
        if self._owned is not None:
            owned, self._owned = self._owned, None
            await owned.aclose()

    async def _send(self, path: str, body: bytes) -> "httpx2.Response":
        import httpx2

        client = self._client or self._open()
        headers = {"content-type": "application/json", "accept": "text/event-stream, application/json"}
        if self._key:
            headers["authorization"] = f"Bearer {self._key}"
        try:
            request = client.build_request(
                "POST", self._base_url + path, content=body, headers=headers, timeout=self._timeouts()
            )
            return await client.send(request, stream=True)
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            raise self._without_key(self.trouble(error)) from error

    def _open(self) -> "httpx2.AsyncClient":
        import httpx2

        if self._owned is None:
            limits = httpx2.Limits(max_connections=None, max_keepalive_connections=20, keepalive_expiry=60.0)
            self._owned = httpx2.AsyncClient(limits=limits)
        return self._owned

    def _timeouts(self) -> "httpx2.Timeout":
        import httpx2

        return httpx2.Timeout(self._idle_timeout, connect=CONNECT_TIMEOUT)

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
        if not self._key or self._key not in f"{error}{error.hint}":
            return error
        message, hint = (text.replace(self._key, "[key]") for text in (str(error), error.hint))
        return ProviderError(message, retryable=error.retryable, retry_after=error.retry_after, hint=hint)


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

    @property
    def content_type(self) -> str:
        return self._response.headers.get("content-type", "").partition(";")[0].strip().lower()

    async def batch(self) -> bytes | None:
        """All bytes that came since the last call, waiting for the first; None at the end of the body."""
        if self._reader is None:
            self._reader = asyncio.create_task(self._read())
        await self._arrived.wait()
        if self._chunks:
            return self._take()
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


def _checked(api_key: str) -> str:
    key = api_key.strip()
    if not key.isascii() or not key.isprintable():
        raise UserError("the API key has characters that no HTTP header can carry", hint="copy it again, as one line")
    return key
