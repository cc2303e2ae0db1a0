"""The codec: what goes in comes out, and whatever bytes arrive, the answer is a protocol error."""

import json
from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from buddy.errors import ProtocolError
from buddy.protocol.codes import VERSION, ErrorCode
from buddy.protocol.envelopes import (
    MAX_DEPTH,
    Event,
    Request,
    Response,
    encode,
    event_of,
    parse_incoming,
    parse_request,
    payload_of,
    salvage,
)
from buddy.protocol.events import EVENTS, AssistantToken, EventBody
from buddy.protocol.request_table import REQUESTS
from buddy.protocol.shapes import ErrorInfo, Shape
from tests.protocol.anything import ids, json_values, shapes

bodies: st.SearchStrategy[EventBody] = st.one_of([shapes(body) for body in EVENTS.values()])
payloads: st.SearchStrategy[tuple[str, Shape]] = st.one_of(
    [st.tuples(st.just(name), shapes(row.payload)) for name, row in REQUESTS.items()]
)


def request_line(**changes: object) -> bytes:
    envelope: dict[str, object] = {"v": VERSION, "kind": "request", "requestId": "req_1", "type": "ping", "payload": {}}
    return json.dumps(envelope | changes).encode()


def refused(line: bytes) -> ProtocolError:
    with pytest.raises(ProtocolError) as caught:
        payload_of(parse_request(line))
    return caught.value


@given(bodies, ids("sess"), st.integers(1, 2**53), st.integers(0, 2**53), st.none() | ids("run"))
def test_any_event_survives_the_wire(body: EventBody, session_id: str, seq: int, ts: int, run_id: str | None):
    event = event_of(body, session_id=session_id, seq=seq, ts=ts, run_id=run_id)
    line = event.line()
    assert line.endswith(b"}\n")
    assert line.count(b"\n") == 1
    received = parse_incoming(line)
    assert isinstance(received, Event)
    assert (received.session_id, received.seq, received.ts, received.run_id) == (session_id, seq, ts, run_id)
    assert received.body() == body
    assert received.line() == line, "an event keeps its bytes for ever"


@given(payloads, ids("req"), st.none() | ids("sess"))
def test_any_request_survives_the_wire(payload: tuple[str, Shape], request_id: str, session_id: str | None):
    kind, shape = payload
    if session_id is not None:
        session_id = getattr(shape, "session_id", None) or session_id
    sent = Request(request_id, kind, encode(shape), session_id or msgspec.UNSET)
    received = parse_request(sent.line())
    assert (received.request_id, received.type, received.session_id) == (request_id, kind, sent.session_id)
    assert payload_of(received) == shape


@given(ids("req"), shapes(ErrorInfo), st.booleans())
def test_any_response_survives_the_wire(request_id: str, error: ErrorInfo, ok: bool):
    sent = Response(request_id, "ping", ok, Raw(b"{}"), None if ok else error)
    assert parse_incoming(sent.line()) == sent


@given(st.binary() | json_values.map(lambda value: json.dumps(value).encode()))
def test_no_bytes_raise_anything_but_a_protocol_error(line: bytes):
    for read in (parse_request, parse_incoming):
        with pytest.raises(ProtocolError):
            read(line)
    salvage(line)


@given(st.dictionaries(st.sampled_from(["v", "kind", "requestId", "type", "payload", "sessionId"]), json_values))
def test_no_wrong_field_raises_anything_but_a_protocol_error(changes: dict[str, object]):
    line = request_line(**changes)
    try:
        payload_of(parse_request(line))
    except ProtocolError as error:
        assert error.code in get_args(ErrorCode)
    salvage(line)


HOSTILE = {
    "invalid UTF-8": b'{"v":"push.runtime.v1","kind":"request","requestId":"req_\xff","type":"ping","payload":{}}',
    "lone surrogate": request_line(requestId="req_\ud800"),
    "NUL": request_line(requestId="req_\x00"),
    "NaN": request_line(payload={"a": float("nan")}),
    "infinity": request_line(payload={"a": float("-inf")}),
    "1e400": request_line(payload={"a": 1}).replace(b": 1}", b": 1e400}"),
    "a huge integer": request_line(payload={"a": 1}).replace(b": 1}", b": " + b"9" * 10_000 + b"}"),
    "a key twice": request_line().replace(b'"payload"', b'"type": "hello", "payload"'),
    "a key twice in the payload": request_line().replace(b"{}", b'{"a": 1, "a": 2}'),
    "100,000 deep": request_line().replace(b"{}", b'{"a":' * 100_000 + b"1" + b"}" * 100_000),
    "100,000 deep and open": b"[" * 100_000,
    "one too deep": request_line().replace(b"{}", b'{"a":' * MAX_DEPTH + b"1" + b"}" * MAX_DEPTH),
    "wrong kind": request_line(kind="event"),
    "no kind": request_line().replace(b'"kind"', b'"kin"'),
    "no version": request_line().replace(b'"v"', b'"w"'),
    "kind is a number": request_line(kind=7),
    "payload is a list": request_line(payload=[]),
    "payload is null": request_line(payload=None),
    "no payload": request_line().replace(b'"payload"', b'"pay"'),
    "requestId without prefix": request_line(requestId="1"),
    "requestId that is a path": request_line(requestId="req_../../x"),
    "requestId of 10 kB": request_line(requestId="req_" + "x" * 10_000),
    "sessionId is a number": request_line(sessionId=7),
    "sessionId is null": request_line(sessionId=None),
    "two objects": request_line() + request_line(),
    "empty": b"",
    "a text": b'"text"',
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_lines_are_invalid_requests(name: str):
    assert refused(HOSTILE[name]).code == "INVALID_REQUEST"


@pytest.mark.parametrize("version", ["push.runtime.v2", "", 1, None])
def test_another_version_is_refused_on_both_sides(version: object):
    assert refused(request_line(v=version)).code == "UNSUPPORTED_PROTOCOL_VERSION"
    line = Event("sess_1", 1, 0, "status", Raw(b"{}")).line().replace(VERSION.encode(), b"push.runtime.v2")
    with pytest.raises(ProtocolError, match=r"push\.runtime\.v2"):
        parse_incoming(line)


def test_an_unknown_request_type_is_answered_as_such():
    assert refused(request_line(type="make_coffee")).code == "UNSUPPORTED_REQUEST_TYPE"
    assert refused(request_line(type="make_coffee", payload=5)).code == "UNSUPPORTED_REQUEST_TYPE"
    assert refused(request_line(payload=5)).code == "INVALID_REQUEST"


def test_the_error_of_a_wrong_payload_names_the_field():
    assert "lastSeenSeq" in refused(request_line(type="attach_session", payload={"sessionId": "sess_1"})).message


def test_the_deepest_allowed_nesting_is_read():
    parse_request(request_line().replace(b"{}", b'{"a":' * (MAX_DEPTH - 1) + b"1" + b"}" * (MAX_DEPTH - 1)))


def test_brackets_inside_texts_are_not_nesting():
    parse_request(request_line(payload={"a": '[{"' * 1000}))


def test_an_unknown_event_type_has_no_body():
    line = Event("sess_1", 1, 0, "from_the_future", Raw(b'{"a":1}')).line()
    received = parse_incoming(line)
    assert isinstance(received, Event)
    assert received.body() is None
    assert received.line() == line


def test_unknown_fields_are_tolerated_everywhere():
    request = parse_request(request_line(later=1, payload={"later": [1]}))
    assert payload_of(request) == REQUESTS["ping"].payload()
    event = parse_incoming(
        b'{"v":"push.runtime.v1","kind":"event","sessionId":"sess_1","seq":1,"ts":0,"type":"assistant_token",'
        b'"later":true,"payload":{"text":"x","later":{}}}'
    )
    assert isinstance(event, Event)
    assert event.body() == AssistantToken(text="x")


def test_a_bad_line_still_yields_its_request_id():
    assert salvage(request_line(payload=None, v=3)) == ("req_1", "ping")
    assert salvage(b"nonsense") == (None, None)


def test_every_error_code_of_the_protocol_is_there():
    assert set(get_args(ErrorCode)) == {
        "UNSUPPORTED_PROTOCOL_VERSION",
        "UNSUPPORTED_REQUEST_TYPE",
        "INVALID_REQUEST",
        "SESSION_NOT_FOUND",
        "ATTACH_FORBIDDEN",
        "RUN_IN_PROGRESS",
        "NO_ACTIVE_RUN",
        "APPROVAL_NOT_FOUND",
        "APPROVAL_EXPIRED",
        "PROVIDER_NOT_CONFIGURED",
        "SANDBOX_UNAVAILABLE",
        "INTERNAL_ERROR",
        "OVERLOADED",
        "FRAME_TOO_LARGE",
        "STORAGE_FULL",
    }
