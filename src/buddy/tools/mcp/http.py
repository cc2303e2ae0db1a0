"""The HTTP client of a server that is reached by its address.

Invariants: a response body is bounded, and never compressed; redirects leave neither the origin nor the method (the
SDK sees to that).
"""

from collections.abc import AsyncIterator
from contextvars import ContextVar

import httpx2
import msgspec
from msgspec import Struct

from buddy.tools.mcp.definitions import ServerDefinition

MAX_BODY = 12 * 1024 * 1024
CONNECT_SECONDS = 30.0
UNAUTHORIZED = 401
SERVER_ERROR = 500


class BodyTooLarge(httpx2.StreamError):
    def __init__(self) -> None:
        super().__init__(f"the server sent more than {MAX_BODY // 1024 // 1024} MiB")


class EncodedBody(httpx2.StreamError):
    def __init__(self, encoding: str) -> None:
        super().__init__(f"the server sent a body as {encoding[:40]!r}, although only plain ones are accepted")


class Reached(Struct):
    """What became of the requests to a server. `problem` is why it could not be reached the last time, if so."""

    problem: str = ""
    is_unauthorized: bool = False
    """Whether the server wanted a login, and was not satisfied."""
    posts: int = 0
    """How many were begun; a call is one or more of them."""
    unsent: set[int] = msgspec.field(default_factory=set[int])
    """The numbers of those for which there was no connection."""

    def sent_nothing(self, since: int) -> bool:
        """Whether it is certain that no request after the first `since` has left."""
        return self.posts > since and self.unsent.issuperset(range(since, self.posts))


class CallStatus(Struct):
    """The HTTP status that the last request of one call was answered with; 0 before that."""

    code: int = 0

    @property
    def is_of_server(self) -> bool:
        """Whether something failed at the server or on the way to it, so that the call may have run."""
        return self.code >= SERVER_ERROR


calling: ContextVar[CallStatus | None] = ContextVar("calling", default=None)
"""The call that a request belongs to: the SDK sends it in the context of its caller."""


class BoundedTransport(httpx2.AsyncHTTPTransport):
    """Cuts off a body that is too large; an event stream is bounded by the size of its events instead."""

    def __init__(self, reached: Reached) -> None:
        super().__init__(trust_env=True)
        self._reached = reached

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        number = self._reached.posts
        self._reached.posts += request.method == "POST"
        try:
            response = await super().handle_async_request(request)
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            self._reached.problem = str(error) or type(error).__name__
            if request.method == "POST":
                self._reached.unsent.add(number)
            raise
        self._reached.is_unauthorized = response.status_code == UNAUTHORIZED
        if (status := calling.get()) is not None and request.method == "POST":
            status.code = response.status_code
        encoding = response.headers.get("content-encoding", "identity")
        if encoding.strip().lower() != "identity":  # its size would be known only after it was unpacked
            await response.aclose()
            raise EncodedBody(encoding)
        if not response.headers.get("content-type", "").lower().startswith("text/event-stream"):
            response.stream = _BoundedStream(response.stream)
        return response


class _BoundedStream(httpx2.AsyncByteStream):
    def __init__(self, stream: "httpx2.SyncByteStream | httpx2.AsyncByteStream | None") -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        if isinstance(self._stream, httpx2.AsyncByteStream):
            async for chunk in self._stream:
                size += len(chunk)
                if size > MAX_BODY:
                    raise BodyTooLarge
                yield chunk

    async def aclose(self) -> None:
        if isinstance(self._stream, httpx2.AsyncByteStream):
            await self._stream.aclose()


def make_http_client(
    definition: ServerDefinition, reached: Reached, auth: httpx2.Auth | None = None
) -> httpx2.AsyncClient:
    """Reading may take as long as a call may; the call's own deadline ends it."""
    timeout = httpx2.Timeout(CONNECT_SECONDS, read=max(300.0, definition.timeout_seconds))
    named = {name: value for name, value in definition.headers if name.lower() != "accept-encoding"}
    headers = {**named, "Accept-Encoding": "identity"}
    return httpx2.AsyncClient(headers=headers, timeout=timeout, auth=auth, transport=BoundedTransport(reached))
