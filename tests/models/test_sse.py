"""The parser yields the events of a stream, however it is written and wherever the network cuts it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buddy.errors import ProviderError
from buddy.models.sse import Events

STREAMS: list[tuple[str, bytes, list[bytes]]] = [
    ("two events", b"data: a\n\ndata: b\n\n", [b"a", b"b"]),
    ("several lines", b"data: a\ndata: b\n\n", [b"a\nb"]),
    ("CRLF", b"data: a\r\n\r\ndata: b\r\n\r\n", [b"a", b"b"]),
    ("CR alone", b"data: a\r\rdata: b\r\r", [b"a", b"b"]),
    ("mixed ends", b"data: a\r\n\ndata: b\n\r\n", [b"a", b"b"]),
    ("no space", b"data:a\n\n", [b"a"]),
    ("two spaces", b"data:  a\n\n", [b" a"]),
    ("comments", b": hi\n\n:\ndata: a\n: in between\n\n", [b"a"]),
    ("other fields", b"event: x\nid: 1\nretry: 5\ndata: a\nunknown\n\n", [b"a"]),
    ("an event without data", b"event: ping\n\ndata: a\n\n", [b"a"]),
    ("empty data", b"data\n\ndata:\n\n", [b"", b""]),
    ("no blank line at the end", b"data: a\n\ndata: b\n", [b"a", b"b"]),
    ("no line end at the end", b"data: a\n\ndata: b", [b"a", b"b"]),
    ("a byte order mark", b"\xef\xbb\xbfdata: a\n\n", [b"a"]),
    ("characters of several bytes", "data: grün 🌲\u2028\n\n".encode(), ["grün 🌲\u2028".encode()]),
    ("nothing", b"", []),
    ("blank lines only", b"\n\r\n\r\r\n", []),
]


@pytest.mark.parametrize(("stream", "expected"), [case[1:] for case in STREAMS], ids=[case[0] for case in STREAMS])
def test_a_stream_yields_its_events(stream: bytes, expected: list[bytes]) -> None:
    assert _events(stream, []) == expected
    assert _events(stream, list(range(len(stream)))) == expected


pieces = st.sampled_from([b"data: ", b"data:", b"x", b"\n", b"\r", b"\r\n", b":", b"\xc3", b"\xbc", b"event: y"])


@given(st.lists(pieces, max_size=40).map(b"".join), st.lists(st.integers(0, 80), max_size=20))
def test_the_events_are_the_same_under_any_chunking(stream: bytes, cuts: list[int]) -> None:
    whole = _events(stream, [])
    assert _events(stream, cuts) == whole
    assert _events(stream, list(range(len(stream)))) == whole


def test_an_event_is_yielded_as_soon_as_its_blank_line_arrives() -> None:
    events = Events()
    assert events.feed(b"data: a\r\r") == [b"a"]
    assert events.feed(b"data: b\r\n\r") == [b"b"]
    assert events.feed(b"\ndata: c\n\n") == [b"c"]


@pytest.mark.parametrize("piece", [b"data: " + b"x" * 50, b"data: x\n" * 50, b"y" * 200])
def test_an_event_over_the_limit_is_refused(piece: bytes) -> None:
    events = Events(limit=30)
    with pytest.raises(ProviderError, match="more than 30 bytes"):
        events.feed(piece)


def test_the_limit_is_for_one_event_not_for_the_stream() -> None:
    events = Events(limit=30)
    for _ in range(20):
        assert events.feed(b"data: 0123456789\n\n") == [b"0123456789"]


def _events(stream: bytes, cuts: list[int]) -> list[bytes]:
    events, found, last = Events(), list[bytes](), 0
    for cut in sorted({cut for cut in cuts if cut < len(stream)}):
        found += events.feed(stream[last:cut])
        last = cut
    found += events.feed(stream[last:])
    return found + events.finish()
