"""One model API over HTTP: a request out, what arrives in as few pieces as it can.

What always holds:
- every failure is a `ProviderError`, and the key is in none of them;
- an `Answer` is closed by who got it: its connection is then closed too, or kept for the next;
- a server that sends nothing is given up after `idle_timeout`; one that trickles bytes without ever ending a line (or
  its headers) after `SLOWEST` times as long, while blank lines and comments keep an exchange alive.
"""

import asyncio
import hashlib
import math
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property

from buddy.errors import ProviderError
from buddy.models.credentials import ApiKey, Credentials
from buddy.models.dialling import Call, NoConnection, Pool, Server, Silent, Trickling, parse_address
from buddy.models.http1 import Cut
from buddy.models.refusals import refused

CONNECT_TIMEOUT = 30.0
MAX_REFUSAL = 64 * 1024
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
        pool: Pool | None = None,
    ) -> None:
        self._base_url = base_url.rstrip("/")
        self._credentials = ApiKey(api_key) if isinstance(api_key, str) else api_key
        self._key = ""
        self._api = api
        self.idle_timeout = idle_timeout
        self._server: Server | None = None
        self._pool = pool

    async def post(self, path: str, body: Sequence[bytes]) -> "Answer":
        """Send a JSON body; give the answer once its headers are there, or raise what its status means."""
        call = await self._send_allowed(path, body)
        try:
            return await self._accepted(call)
        except BaseException as error:
            call.close()
            if isinstance(error, ProviderError):
                self.without_key(error)
            raise

    async def close(self) -> None:
        """End the connections that were kept."""
        if self._server is not None:
            self._server.close()

    async def _accepted(self, call: Call) -> "Answer":
        answer = Answer(call, self)
        if call.status != 200:
            raise refused(call.status, call.headers, await answer.read_some(MAX_REFUSAL), self._api)
        return answer

    async def _send_allowed(self, path: str, body: Sequence[bytes]) -> Call:
        """Send, and once more with newer credentials where there are any; a second refusal is theirs to explain."""
        call = await self._send(path, body)
        for _ in range(2):
            if call.status != 401:
                break
            try:
                if not await self._credentials.refused():
                    break
            except BaseException:
                call.close()
                raise
            call.close()
            call = await self._send(path, body)
        return call

    async def _send(self, path: str, body: Sequence[bytes]) -> Call:
        proof = await self._credentials.headers()
        self._key = proof.get("authorization", "").removeprefix("Bearer ")
        headers = {"content-type": "application/json", "accept": "text/event-stream, application/json", **proof}
        try:
            return await self._reach().ask("POST", path, headers, body)
        except OSError as error:
            raise self.without_key(self.trouble(error)) from error

    def _reach(self) -> Server:
        if self._server is None:
            try:
                address = parse_address(self._base_url)
            except ValueError as error:
                hint = "base_url starts with https:// or http://"
                told = f"base_url is not a URL that can be called: {error}"
                raise ProviderError(told, retryable=False, hint=hint) from error
            self._server = Server(
                address,
                connect_seconds=CONNECT_TIMEOUT,
                idle_seconds=self.idle_timeout,
                head_seconds=self.line_patience,
                pool=self._pool,
            )
        return self._server

    @cached_property
    def origin(self) -> str:
        """A name for this server: what only it understands is marked with it, and goes back to no other."""
        return hashlib.sha256(self._base_url.encode()).hexdigest()[:16]

    @property
    def line_patience(self) -> float:
        """How long a line of an answer may take."""
        return SLOWEST * self.idle_timeout

    def trouble(self, error: OSError) -> ProviderError:
        """What a failure of the transport means."""
        told = str(error) or type(error).__name__
        match error:
            case NoConnection():
                return ProviderError(f"no connection to the model API within {CONNECT_TIMEOUT:g} s", retryable=True)
            case Silent() | Trickling():
                return ProviderError(told, retryable=True)
            case Cut() | ConnectionResetError() | BrokenPipeError():
                return Broken(f"the connection to the model API broke: {told}", retryable=True)
            case _:
                return ProviderError(f"no connection to the model API: {told}", retryable=True)

    def without_key(self, error: ProviderError) -> ProviderError:
        """The same error, of the same type, without the key."""
        if self._key:
            error.args = (str(error).replace(self._key, "[key]"),)
            error.hint = error.hint.replace(self._key, "[key]")
        return error


class Answer:
    """An answer whose headers are there, and what of its body comes."""

    def __init__(self, call: Call, wire: Wire) -> None:
        encoding = call.headers.get("content-encoding", "identity")
        if encoding != "identity":
            raise ProviderError(f"the server compressed its answer ({encoding}) unasked", retryable=False)
        self.close = call.close
        self._call = call
        self._wire = wire
        self._patience = wire.line_patience

    @property
    def content_type(self) -> str:
        return self._call.headers.get("content-type", "").partition(";")[0].strip().lower()

    async def batch(self, within: float = math.inf) -> bytes | None:
        """All bytes that came since the last call, waiting for the first; None at the end of the body.

        TimeoutError where nothing came `within` so many seconds.
        """
        now = asyncio.get_running_loop().time
        began, seconds = now(), min(self._patience, within)
        try:
            # Only the time spent waiting here counts, not how long the reader of the pieces took.
            got = await self._call.read(seconds)
        except OSError as error:
            if not isinstance(error, Silent) or seconds >= self._wire.idle_timeout:
                raise self._wire.trouble(error) from error
            if within < self._patience:
                raise TimeoutError from error
            raise ProviderError("the model API sends bytes, but no whole line of them", retryable=True) from error
        if b"\n" in got or b"\r" in got:
            self._patience = self._wire.line_patience
        else:
            self._patience -= now() - began
        return got or None

    async def read_some(self, limit: int) -> bytes:
        """The body up to about `limit` bytes; what came is kept when the connection breaks."""
        got = b""
        with suppress(ProviderError):
            while len(got) < limit and (more := await self.batch()) is not None:
                got += more
        return got
