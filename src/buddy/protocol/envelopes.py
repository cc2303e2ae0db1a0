"""The three envelopes, and NDJSON: one JSON object per line.

Invariants: an event's line is spliced from its final payload text and never encoded again; a request's line is parsed
once; a line that cannot be a request becomes a `ProtocolError`, whatever bytes it has.
"""

import contextlib
import json
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from buddy.errors import ProtocolError
from buddy.protocol.codes import VERSION
from buddy.protocol.events import EVENT_NAMES, EVENTS, EventBody
from buddy.protocol.open_file_requests import FileWanted
from buddy.protocol.request_table import REQUESTS
from buddy.protocol.shapes import ErrorInfo, SessionRow, Shape

if TYPE_CHECKING:
    from buddy.protocol.json_events import JsonEvent

MAX_DEPTH = 64

AnyShape = TypeVar("AnyShape", bound=Shape)


class Request(Struct, frozen=True, rename="camel"):
    """A request as a client sends it."""

    request_id: str
    type: str
    payload: Raw
    session_id: str | UnsetType = UNSET
    v: str = VERSION
    kind: Literal["request"] = "request"

    def line(self) -> bytes:
        return _encoder.encode(self) + b"\n"


class IncomingRequest(Struct, frozen=True, rename="camel"):
    """A request as the runtime reads it; its payload is converted to the type of its row."""

    v: str
    kind: Literal["request"]
    request_id: str
    type: str
    payload: dict[str, Any] | list[Any] | str | float | bool | None
    session_id: str | UnsetType = UNSET


class Response(Struct, frozen=True, rename="camel"):
    request_id: str
    type: str
    ok: bool
    payload: Raw
    error: ErrorInfo | None
    session_id: str | UnsetType = UNSET
    v: str = VERSION
    kind: Literal["response"] = "response"

    def line(self) -> bytes:
        return _encoder.encode(self) + b"\n"


class Event(Struct, frozen=True, rename="camel", gc=False):
    """One thing that happened. `payload` is its final JSON text: in memory, in the log and on the wire alike."""

    session_id: str
    seq: int
    ts: int
    type: str
    payload: Raw
    run_id: str | None = None

    def line(self) -> bytes:
        start = _line_start(self.session_id, self.run_id)
        return _EVENT_LINE % (start, self.seq, self.ts, self.type.encode(), self.payload)

    def to_json(self) -> "JsonEvent":
        """The event as plain JSON, which a client's view is folded from."""
        return msgspec.json.decode(self.line())

    def body(self) -> EventBody | None:
        """The typed payload, or None for an event type this version does not know."""
        decoder = _bodies.get(self.type) or _make_decoder(self.type)
        return decoder.decode(self.payload) if decoder else None


class RowEvent(Struct, frozen=True, rename="camel"):
    """A row of the session list as it is now, for a client that watches the list."""

    session_id: str
    ts: int
    payload: SessionRow
    type: Literal["session_row"] = "session_row"
    v: str = VERSION
    kind: Literal["event"] = "event"


class FileEvent(Struct, frozen=True, rename="camel"):
    """A question about a file that a client has open; like a row, it is part of no log and has no seq."""

    session_id: str
    ts: int
    payload: FileWanted
    type: Literal["file_wanted"] = "file_wanted"
    v: str = VERSION
    kind: Literal["event"] = "event"

    def line(self) -> bytes:
        return _encoder.encode(self) + b"\n"


def event_lines(events: Iterable[Event], after: int, size: int) -> tuple[bytes, int]:
    """Events as lines, up to `size` bytes, and the seq of the last one; `after` if there are none."""
    lines: list[bytes] = []
    for event in events:
        lines.append(event.line())
        after = event.seq
        size -= len(lines[-1])
        if size <= 0:
            break
    return b"".join(lines), after


def event_of(body: EventBody, *, session_id: str, seq: int, ts: int, run_id: str | None = None) -> Event:
    """Put a body into its envelope; this encodes its payload."""
    return Event(session_id, seq, ts, EVENT_NAMES[type(body)], Raw(_encoder.encode(body)), run_id)


def session_row_line(row: SessionRow, ts: int) -> bytes:
    """A changed row of the session list. It is a view, not part of a log, so it has no seq."""
    return _encoder.encode(RowEvent(row.session_id, ts, row)) + b"\n"


def encode(shape: Shape) -> Raw:
    return Raw(_encoder.encode(shape))


def decode(payload: bytes | Raw, shape: type[AnyShape]) -> AnyShape:
    """Read a payload; the error says which field is wrong and why, because the peer must fix it."""
    try:
        return msgspec.json.decode(payload, type=shape)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ProtocolError("INVALID_REQUEST", str(error)) from error


def parse_request(line: bytes) -> IncomingRequest:
    """Read one request line, strictly and once."""
    tree = _parse(line)
    try:
        request = msgspec.convert(tree, IncomingRequest)
    except msgspec.ValidationError as error:
        _check_version(tree)
        raise ProtocolError("INVALID_REQUEST", f"not a request envelope: {error}") from error
    if request.v != VERSION:
        _check_version(tree)
    if not _REQUEST_NAME.fullmatch(request.request_id):
        raise ProtocolError("INVALID_REQUEST", "requestId must look like req_… (letters, digits, . _ : -)")
    return request


def parse_incoming(line: bytes) -> Response | Event | RowEvent | FileEvent:
    """Read one line that the runtime sent (the client's side)."""
    try:
        head = _heads.decode(line)
        if head.v != VERSION:
            raise ProtocolError("UNSUPPORTED_PROTOCOL_VERSION", f"this client speaks {VERSION}, not {head.v!r}")
        if head.kind == "response":
            return _responses.decode(line)
        return _unlogged.get(head.type, _events).decode(line)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise ProtocolError("INVALID_REQUEST", f"not a response or an event: {error}") from error


def payload_of(request: IncomingRequest) -> Shape:
    """The typed payload of a request; an unknown type is answered as such."""
    row = REQUESTS.get(request.type)
    if row is None:
        raise ProtocolError("UNSUPPORTED_REQUEST_TYPE", f"unknown request type {request.type[:60]!r}")
    payload = _fields(request)
    _check_ids_agree(request)
    is_named_outside = row.is_session_bound and request.session_id is not UNSET and "sessionId" not in payload
    if is_named_outside and "session_id" in row.payload.__struct_fields__:
        payload = {**payload, "sessionId": request.session_id}
    try:
        return msgspec.convert(payload, row.payload)
    except (msgspec.ValidationError, RecursionError) as error:
        raise ProtocolError("INVALID_REQUEST", str(error)) from error


def _fields(request: IncomingRequest) -> dict[str, Any]:
    if not isinstance(request.payload, dict):
        raise ProtocolError("INVALID_REQUEST", "payload must be an object")
    return request.payload


def session_of(request: IncomingRequest) -> str:
    """The session of a request, from its envelope or its payload; if both name one, they must agree."""
    inner = _check_ids_agree(request)
    found = request.session_id or inner
    if not found:
        raise ProtocolError("INVALID_REQUEST", "sessionId is missing")
    return found


def _check_ids_agree(request: IncomingRequest) -> str | None:
    """The session that the payload names, if any."""
    inner = _fields(request).get("sessionId")
    if inner is not None and not isinstance(inner, str):
        raise ProtocolError("INVALID_REQUEST", "sessionId must be a string")
    if request.session_id and inner is not None and request.session_id != inner:
        raise ProtocolError("INVALID_REQUEST", "sessionId differs between envelope and payload")
    return inner


def salvage(line: bytes) -> tuple[str | None, str | None]:
    """The requestId and type of a bad line, if they can be read, so that the error reaches its sender."""
    try:
        found = msgspec.json.decode(line, type=_Salvage)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        named = _REQUEST_ID.search(line)
        return (named[1].decode() if named else None), None
    return found.request_id, found.type


class _Head(Struct):
    v: str
    kind: str
    type: str = ""


class _Salvage(Struct, rename="camel"):
    request_id: str | None = None
    type: str | None = None


class _Version(Struct):
    v: Any = VERSION


def _check_version(tree: object) -> None:
    with contextlib.suppress(msgspec.ValidationError):  # not an object, and so of no version
        found = msgspec.convert(tree, _Version).v
        if found != VERSION:
            message = f"this runtime speaks {VERSION}, not {str(found)[:60]!r}"
            raise ProtocolError("UNSUPPORTED_PROTOCOL_VERSION", message)


def _parse(line: bytes) -> Any:
    """The JSON value in a line.

    A lenient parser would accept what is refused here: nesting that is too deep, a key that occurs twice in one object,
    numbers that JSON does not have, half of a surrogate pair.
    """
    if line.count(b"{") + line.count(b"[") > MAX_DEPTH and _depth(line) > MAX_DEPTH:
        raise ProtocolError("INVALID_REQUEST", f"JSON is nested deeper than {MAX_DEPTH}")
    try:
        tree = _decoder.decode(line.decode())
        if b"\\u" in line:
            _encoder.encode(tree)
    except (ValueError, RecursionError) as error:
        raise ProtocolError("INVALID_REQUEST", f"not JSON: {error}") from error
    return tree


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ProtocolError("INVALID_REQUEST", "a key occurs twice in one object")
    return found


def _finite(text: str) -> float:
    number = float(text)
    if number - number != 0:
        raise ProtocolError("INVALID_REQUEST", f"{text[:20]} is not a number JSON can hold")
    return number


_decoder = json.JSONDecoder(object_pairs_hook=_unique_keys, parse_float=_finite, parse_constant=_finite)
_REQUEST_NAME = re.compile(r"req_[A-Za-z0-9._:-]{1,200}")
_REQUEST_ID = re.compile(rb'"requestId"\s*:\s*"(req_[A-Za-z0-9._:-]{1,200})"')
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"')
_NOT_BRACKET = re.compile(rb"[^\[\]{}]+")


def _depth(line: bytes) -> int:
    depth = deepest = 0
    for bracket in _NOT_BRACKET.sub(b"", _STRING.sub(b"", line)):
        depth += 1 if bracket in b"[{" else -1
        deepest = max(deepest, depth)
    return deepest


_EVENT_LINE = b'%b"seq":%d,"ts":%d,"type":"%b","payload":%b}\n'


@lru_cache(256)
def _line_start(session_id: str, run_id: str | None) -> bytes:
    """How the lines of a run's events begin."""
    run = f'"runId":"{run_id}",' if run_id else ""
    return f'{{"v":"{VERSION}","kind":"event","sessionId":"{session_id}",{run}'.encode()


_encoder = msgspec.json.Encoder()
_responses = msgspec.json.Decoder(Response)
_events = msgspec.json.Decoder(Event)
_unlogged: dict[str, msgspec.json.Decoder[RowEvent] | msgspec.json.Decoder[FileEvent]] = {
    "session_row": msgspec.json.Decoder(RowEvent),
    "file_wanted": msgspec.json.Decoder(FileEvent),
}
_heads = msgspec.json.Decoder(_Head)
_bodies: dict[str, msgspec.json.Decoder[EventBody]] = {}


def _make_decoder(kind: str) -> msgspec.json.Decoder[EventBody] | None:
    """Create decoders on demand: creating all of them would add 2 ms to every start."""
    if kind in EVENTS:
        _bodies[kind] = msgspec.json.Decoder(EVENTS[kind])
    return _bodies.get(kind)
