"""One model API over HTTP: sends a request and reads the response in as few pieces as possible.

Invariants:
- every failure is a `ProviderError`, and none of them contains the key;
- the caller that gets a `WireResponse` closes it: its connection is then closed too, or kept for the next request;
- a server that sends nothing is given up after `idle_timeout`; one that trickles bytes without ever completing a line
  (or its headers) after `SLOWEST` times as long, while blank lines and comments keep an exchange alive.
"""

import asyncio
import errno
import hashlib
import math
import os
import re
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property

from buddy.errors import ProviderError
from buddy.models.api_errors import response_error
from buddy.models.apis import access_of, add_version, key_in
from buddy.models.credentials import ApiKey, Credentials
from buddy.models.http.address import parse_address
from buddy.models.http.client import ConnectTimeout, HttpClient, ResponseStream, Timeouts
from buddy.models.http.connection import HeaderTimeout, ReadTimeout
from buddy.models.http.http1 import TruncatedResponse
from buddy.models.http.pool import Pool
from buddy.models.http.tls import tls_failure

CONNECT_TIMEOUT = 30.0
MAX_REFUSAL = 64 * 1024
SLOWEST = 2.0
_HEADERS = {"content-type": "application/json", "accept": "text/event-stream, application/json"}


class ConnectionLost(ProviderError):
    """The connection ended before the response did."""


class Wire:
    """Speaks HTTP for a provider; `api` names its protocol in hints."""

    def __init__(
        self,
        base_url: str,
        api_key: str | Credentials,
        *,
        api: str,
        idle_timeout: float = 120.0,
        pool: Pool | None = None,
    ) -> None:
        self._base_url = add_version(base_url, api)
        self._credentials = ApiKey(api_key, api) if isinstance(api_key, str) else api_key
        self._key = ""
        self._proof: Mapping[str, str] | None = None
        self._headers: Mapping[str, str] = {}
        self._api = api
        self.idle_timeout = idle_timeout
        self._client: HttpClient | None = None
        self._pool = pool

    async def post(self, path: str, body: Sequence[bytes]) -> "WireResponse":
        """Send a JSON body; return the response once its headers are there, or raise what its status means."""
        stream = await self._send_allowed(path, body)
        try:
            return await self._check_status(stream)
        except BaseException as error:
            stream.close()
            if isinstance(error, ProviderError):
                self.without_key(error)
            raise

    async def close(self) -> None:
        """Close idle connections."""
        if self._client is not None:
            self._client.close()

    async def _check_status(self, stream: ResponseStream) -> "WireResponse":
        response = WireResponse(stream, self)
        if stream.status != 200:
            raise response_error(stream.status, stream.headers, await response.read_some(MAX_REFUSAL), self._api)
        return response

    async def _send_allowed(self, path: str, body: Sequence[bytes]) -> ResponseStream:
        """Send, and again with newer credentials if there are any; they raise if they are refused a second time."""
        stream = await self._send(path, body)
        for _ in range(2):
            if stream.status != 401:
                break
            try:
                if not await self._credentials.renew():
                    break
            except BaseException:
                stream.close()
                raise
            stream.close()
            stream = await self._send(path, body)
        return stream

    async def _send(self, path: str, body: Sequence[bytes]) -> ResponseStream:
        proof = await self._credentials.headers()
        if proof != self._proof:
            self._proof, self._key = proof, key_in(proof)
            self._headers = {**_HEADERS, **access_of(self._api).headers, **proof}
        try:
            return await self._connect().request("POST", path, self._headers, body)
        except OSError as error:
            raise self.without_key(self.translate(error)) from error

    def _connect(self) -> HttpClient:
        if self._client is None:
            try:
                address = parse_address(self._base_url)
            except ValueError as error:
                message = f"the base URL (BUDDY_BASE_URL, or api_base_url in the profile) {error}"
                hint = 'set it to the URL of the API, such as "https://api.openai.com/v1"'
                raise ProviderError(message, retryable=False, hint=hint) from error
            timeouts = Timeouts(connect=CONNECT_TIMEOUT, idle=self.idle_timeout, headers=self.line_patience)
            self._client = HttpClient(address, timeouts, self._pool)
        return self._client

    @cached_property
    def origin(self) -> str:
        """An id of this server: fields that only it understands are marked with it, and returned to no other."""
        return hashlib.sha256(self._base_url.encode()).hexdigest()[:16]

    @property
    def line_patience(self) -> float:
        """How long a line of a response may take."""
        return SLOWEST * self.idle_timeout

    def translate(self, error: OSError) -> ProviderError:
        """The error of the transport as one of the provider."""
        text = str(error) or type(error).__name__
        match error:
            case ConnectTimeout():
                message = f"can't connect to {self._base_url}: no response within {CONNECT_TIMEOUT:g} s"
                return ProviderError(message, retryable=True)
            case ReadTimeout() | HeaderTimeout():
                return ProviderError(text, retryable=True)
            case TruncatedResponse() | ConnectionResetError() | BrokenPipeError():
                why = os.strerror(error.errno).lower() if error.errno else text
                return ConnectionLost(f"lost the connection to the model API: {why}", retryable=True)
            case _ if failed := tls_failure(error):
                message = f"can't connect to {self._base_url} ({failed.why})"
                return ProviderError(message, retryable=not failed.is_lasting, hint=failed.hint)
            case _:
                return ProviderError(f"can't connect to {self._base_url} {_connect_failure(error)}", retryable=True)

    def without_key(self, error: ProviderError) -> ProviderError:
        """The same error with the key removed from its message."""
        if self._key:
            error.args = (str(error).replace(self._key, "[key]"),)
            error.hint = error.hint.replace(self._key, "[key]")
        return error


class WireResponse:
    """A response whose headers are there, and its body as it arrives."""

    def __init__(self, stream: ResponseStream, wire: Wire) -> None:
        encoding = stream.headers.get("content-encoding", "identity")
        if encoding != "identity":
            message = f"the server sent a compressed response ({encoding}) without being asked"
            raise ProviderError(message, retryable=False)
        self.close = stream.close
        self._stream = stream
        self._wire = wire
        self._patience = wire.line_patience

    @property
    def content_type(self) -> str:
        return self._stream.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def is_over(self) -> bool:
        """Whether everything has arrived and was read."""
        return self._stream.is_over

    async def batch(self, within: float = math.inf) -> bytes | None:
        """All bytes that arrived since the last call, waiting for the first; None at the end of the body.

        TimeoutError if nothing arrives within this many seconds.
        """
        now = asyncio.get_running_loop().time
        began, seconds = now(), min(self._patience, within)
        try:
            # Only the time spent waiting here counts, not how long the consumer took.
            got = await self._stream.read(seconds)
        except OSError as error:
            if not isinstance(error, ReadTimeout) or seconds >= self._wire.idle_timeout:
                raise self._wire.translate(error) from error
            if within < self._patience:
                raise TimeoutError from error
            raise ProviderError("the model API sends bytes, but never a complete line", retryable=True) from error
        if b"\n" in got or b"\r" in got:
            self._patience = self._wire.line_patience
        else:
            self._patience -= now() - began
        return got or None

    async def read_some(self, limit: int) -> bytes:
        """The body up to about `limit` bytes; if the connection breaks, what arrived before."""
        got: list[bytes] = []
        size = 0
        with suppress(ProviderError):
            while size < limit and (more := await self.batch()) is not None:
                got.append(more)
                size += len(more)
        return b"".join(got)


def _connect_failure(error: OSError) -> str:
    """Why no connection was opened. asyncio wraps the reason, once for each address that it tried."""
    numbers = {error.errno} if error.errno else {int(number) for number in re.findall(r"\[Errno (-?\d+)\]", str(error))}
    number = numbers.pop() if len(numbers) == 1 else 0
    if number == errno.ECONNREFUSED:
        return "(connection refused). Is the server running?"
    if isinstance(error, socket.gaierror):
        return f"({(error.strerror or str(error)).lower()}). Check the host name, and the network"
    return f"({os.strerror(number).lower() if number > 0 else error.strerror or error})"
