"""From a request to a reply, for every wire: send it, read the stream, fold it.

Invariants:
- an optional parameter that a server rejects by name is left out, before the first delta, and for good once that
  helped; `stream` is one of them, so a response may be one JSON object; a server that cannot stream (501, or an empty
  stream) is asked for one, too;
- an image that a server refuses is described instead (see `pictures.py`);
- a stream that breaks after its text began is not lost: the fold decides what to do with it.
"""

import asyncio
import math
import re
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from typing import Protocol

from buddy.errors import ProviderError
from buddy.models.api_errors import ApiError
from buddy.models.contract import EmptyResponse, Notice, Piece, Reply
from buddy.models.long_events import EventData, read_long
from buddy.models.pictures import Pictures
from buddy.models.sse import MAX_EVENT, Events
from buddy.models.wire import ConnectionLost, Wire, WireResponse
from buddy.steps import PART, Steps, take_turns

_WAIT_FOR_USAGE = 5.0
_STREAM = "stream"
_LAST_BATCHES = 16
_AT_ONCE = 512
_ABOUT_IMAGES = {"image", "images", "image_url", "input_image", "inlinedata", "vision", "multimodal"}

LeftOut = AbstractSet[str]


class Folding(Protocol):
    """A partial response of one wire. `finish` is why the model stopped, `done` that nothing follows."""

    finish: str
    done: bool

    def feed(self, events: Sequence[EventData]) -> list[Piece]: ...

    def feed_object(self, body: EventData) -> list[Piece]: ...

    def has_text(self) -> bool: ...

    def reply(self, taken: AbstractSet[str]) -> Reply: ...


class Exchange:
    """Requests to one server; `optional` are the parameters that may be left out, `passing` those of them that the next
    request has again. After the end of a reply only the end of the body is missing, which frees the connection:
    `linger` is how long to wait for it."""

    def __init__(
        self,
        wire: Wire,
        path: str | Callable[[LeftOut], str],
        optional: tuple[str, ...],
        linger: float,
        *,
        passing: LeftOut = frozenset(),
        pictures: Pictures | None = None,
    ) -> None:
        self._wire = wire
        self._path = path
        self._optional = optional
        self._passing = passing
        self._pictures = pictures or Pictures()
        self._linger = linger
        self._left_out: LeftOut = frozenset()

    async def stream(
        self,
        body: Callable[[LeftOut], Steps[Sequence[bytes]]],
        make_fold: Callable[[], Folding],
        taken: Callable[[], AbstractSet[str]],
    ) -> AsyncIterator[Piece]:
        """All pieces of one reply; `body` encodes the request without the rejected parameters, `taken` returns the call
        ids that are in use. The fold is imported when the first reply arrives."""
        left_out = self._left_out
        while True:
            notices: list[Notice] = []
            response, left_out = await self._open(body, left_out, notices)
            self._pictures.accept()
            try:
                for notice in notices:
                    yield notice
                fold = make_fold()
                reading = _Reading(response, fold)
                while (pieces := await reading.next()) is not None:
                    for piece in pieces:
                        yield piece
                if fold.done and not response.is_over:
                    await self._drain(response)
                reply = fold.reply(taken())
            except EmptyResponse:
                if _STREAM in left_out or _STREAM not in self._optional:
                    raise
                left_out |= {_STREAM}
                continue
            except ProviderError as error:
                self._wire.without_key(error)
                raise
            finally:
                response.close()
            self._left_out = left_out - self._passing
            yield reply
            return

    async def _drain(self, response: WireResponse) -> None:
        """Read the end of the body; a server that goes on for ever is left."""
        with suppress(TimeoutError, ProviderError):
            for _ in range(_LAST_BATCHES):
                if await response.batch(self._linger) is None:
                    break

    async def _open(
        self, body: Callable[[LeftOut], Steps[Sequence[bytes]]], left_out: LeftOut, notices: list[Notice]
    ) -> tuple[WireResponse, LeftOut]:
        """The response, and the parameters that the server was not sent; images that it refused are in `notices`."""
        while True:
            try:
                response = await self._wire.post(self._path_for(left_out), await take_turns(body(left_out)))
            except ProviderError as error:
                named = self._find_parameter(error, left_out) if isinstance(error, ApiError) else ""
                if named:
                    left_out |= {named}
                elif (notice := self._pictures.refuse(error)) is not None:
                    notices.append(notice)
                else:
                    raise
            else:
                return response, left_out

    def _path_for(self, left_out: LeftOut) -> str:
        return self._path if isinstance(self._path, str) else self._path(left_out)

    def _find_parameter(self, error: ApiError, left_out: LeftOut) -> str:
        """The first parameter that was sent and that the error names."""
        if error.status == 501 and _STREAM in self._optional and _STREAM not in left_out:
            return _STREAM
        if error.status not in {400, 422}:
            return ""
        words = set(re.findall(r"\w+", str(error).lower()))
        if words & _ABOUT_IMAGES and self._pictures.has_any:
            return ""
        if "streaming" in words:
            words.add(_STREAM)
        return next((name for name in self._optional if name in words and name not in left_out), "")


class _Reading:
    """Reads one response to its end, as events or as one JSON object."""

    def __init__(self, response: WireResponse, fold: Folding) -> None:
        if response.content_type == "text/html":
            hint = "set base_url to the URL of the API, which often ends in /v1"
            raise ProviderError("the server sent a web page instead of an API response", retryable=False, hint=hint)
        self._response = response
        self._fold = fold
        self._events = Events()
        self._unread: deque[bytes] = deque()
        self._is_object = response.content_type == "application/json"
        self._is_begun = False
        self._is_over = False

    async def next(self) -> list[Piece] | None:
        """The pieces of the next batch; None at the end."""
        if self._unread and not self._fold.done:
            return await self._feed()
        if self._is_over or self._fold.done:
            return None
        if self._is_object:
            return await self._object(b"")
        batch = await self._batch()
        if batch is None:
            self._is_over = True
            return self._rest()
        if not self._is_begun and (start := batch.lstrip()):
            self._is_begun = True
            # Some servers announce an event stream, or nothing, and send one object; no stream starts like this.
            if start[:1] == b"{":
                return await self._object(batch)
        self._unread.extend(self._events.feed(batch))
        return await self._feed()

    async def _feed(self) -> list[Piece]:
        """The pieces of the next events: not of too many at once."""
        events: list[EventData] = []
        size = 0
        while self._unread and len(events) < _AT_ONCE and size <= PART:
            data = self._unread.popleft()
            size += len(data)
            events.append(data if len(data) <= PART else await take_turns(read_long(data)))
        if self._unread:
            await asyncio.sleep(0)
        return self._fold.feed(events)

    async def _batch(self) -> bytes | None:
        """The next bytes; None at the end. A reply that is complete or has text does not wait for it in vain."""
        try:
            return await self._response.batch(_WAIT_FOR_USAGE if self._fold.finish else math.inf)
        except TimeoutError:
            return None
        except ConnectionLost:
            if self._fold.finish or self._fold.has_text():
                return None
            raise

    async def _object(self, begun: bytes) -> list[Piece]:
        self._is_over = True
        body = begun + await self._response.read_some(MAX_EVENT)
        return self._fold.feed_object(await take_turns(read_long(body)))

    def _rest(self) -> list[Piece]:
        """The remainder at the end of the body: half an event is no reason to lose everything else."""
        try:
            return self._fold.feed(self._events.finish())
        except ProviderError:
            return []
