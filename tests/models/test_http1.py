"""HTTP/1.1 responses: the same however the network cuts them, and never more than their framing says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buddy.models.http.http1 import MAX_HEAD, Response, TruncatedResponse, encode_request

HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKS = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
BODY = b"data: {}\n\ndata: [DONE]\n\n"
CHUNKED = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"a;ext=1\r\ndata: {}\n\n\r\n0E\r\ndata: [DONE]\n\n\r\n0\r\nX-Trailer: 1\r\n\r\n"
)
LENGTH = b"HTTP/1.1 200 OK\r\nContent-Length: 24\r\n\r\n" + BODY
WAITS = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + LENGTH
OLD = b"HTTP/1.0 200 OK\r\nContent-Length: 24\r\nConnection: keep-alive\r\n\r\n" + BODY
OFFER = LENGTH.replace(b"OK\r\n", b"OK\r\nUpgrade: h2c\r\nConnection: Upgrade\r\nX-Empty:\r\n")


def read(raw: bytes, cuts: list[int]) -> tuple[Response, bytes]:
    response, body, done = Response(), b"", 0
    for cut in [*sorted({cut % len(raw) for cut in cuts}), len(raw)]:
        if raw[done:cut]:
            body += response.feed(raw[done:cut])
        done = cut
    return response, body


@pytest.mark.parametrize(
    "raw", [CHUNKED, LENGTH, WAITS, OLD, OFFER], ids=["chunked", "length", "interim", "HTTP/1.0", "upgrade offered"]
)
@given(cuts=st.lists(st.integers(0, 10_000), max_size=30))
def test_a_response_is_the_same_however_it_is_cut(raw: bytes, cuts: list[int]) -> None:
    response, body = read(raw, cuts)
    assert (response.status, response.is_complete, response.is_reusable, body) == (200, True, True, BODY)


def test_without_a_length_the_body_ends_with_the_connection() -> None:
    response, body = read(b"HTTP/1.1 200 OK\r\n\r\n" + BODY, [])
    assert (body, response.is_complete) == (BODY, False)
    response.end()
    assert (response.is_complete, response.is_reusable) == (True, False)


@pytest.mark.parametrize("raw", [CHUNKED, LENGTH])
def test_a_premature_end_is_noticed_everywhere(raw: bytes) -> None:
    for cut in range(len(raw)):
        response = Response()
        response.feed(raw[:cut])
        with pytest.raises(TruncatedResponse):
            response.end()


@pytest.mark.parametrize(
    "raw",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 2x0 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nName : value\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5, 6\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0x5\r\nabcde\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1_0\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcde\r\n",
        CHUNKS + b"1" * 4097,
        CHUNKS + b"1;x=" + b"x" * MAX_HEAD,
        CHUNKS + b"0\r\nX: " + b"x" * MAX_HEAD,
        HEAD + b"X: " + b"x" * MAX_HEAD,
        HEAD + b"X: " + b"x" * MAX_HEAD + b"\r\n\r\n" + b"body",
        b"HTTP/2.0 200 OK\r\n\r\n",
        b"HTTP/1.1 000 OK\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n",
    ],
)
def test_bytes_that_are_not_a_response_are_refused(raw: bytes) -> None:
    with pytest.raises(TruncatedResponse):
        Response().feed(raw)


@pytest.mark.parametrize(
    "raw",
    [
        HEAD + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n",
        HEAD + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n",
        HEAD + b"Content-Length: 5\r\nContent-Length: 5\r\n\r\n",
        HEAD + b"Content-Length: 99999999999999999999\r\n\r\n",
        HEAD + b"Transfer-Encoding: gzip\r\n\r\n",
        HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked, gzip\r\n\r\n",
        HEAD + b"Transfer-Encoding: xchunked\r\n\r\n",
        HEAD + b"X: a\r\n Content-Length: 5\r\n\r\n",
        HEAD + b"X: a\rContent-Length: 5\r\n\r\n",
        HEAD + b"X: a\x00b\r\n\r\n",
        HEAD.replace(b"\r", b"") + b"Content-Length: 5\n\n",
        HEAD + b"Content-Length: 5\n\r\n",
        CHUNKS + b"1\na\r\n",
        CHUNKS + b"1;x\na\r\n",
        CHUNKS + b"1 \r\na\r\n",
        CHUNKS + b"fffffffffffffffff\r\n",
        CHUNKS + b"0\r\nContent-Length: 5\r\n\r\n",
    ],
)
@given(cuts=st.lists(st.integers(0, 10_000), max_size=5))
def test_a_response_that_two_readers_could_frame_differently_is_refused(raw: bytes, cuts: list[int]) -> None:
    with pytest.raises(TruncatedResponse):
        read(raw, cuts)


def test_a_second_response_is_not_part_of_the_first() -> None:
    response, body = read(LENGTH + LENGTH, [])
    assert (body, response.is_complete, response.is_reusable) == (BODY, True, False)


def test_trailers_are_not_headers() -> None:
    assert read(CHUNKED, [])[0].headers == {"content-type": "text/event-stream", "transfer-encoding": "chunked"}


def test_many_small_chunks_are_not_mistaken_for_headers() -> None:
    response, body = Response(), b""
    response.feed(CHUNKS)
    for _ in range(MAX_HEAD // 4):
        body += response.feed(b"1\r\na\r\n")
    assert len(body) == MAX_HEAD // 4


def test_a_connection_is_not_reused_after_more_bytes_than_announced() -> None:
    assert not read(LENGTH + b"more", [])[0].is_reusable
    assert not read(LENGTH.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"), [])[0].is_reusable
    assert not read(LENGTH.replace(b"\r\n\r\n", b"\r\nServer: llama.cpp\r\n\r\n"), [])[0].is_reusable
    with pytest.raises(TruncatedResponse):
        read(LENGTH, [])[0].feed(b"more")


def test_headers_are_found_in_any_case_and_joined() -> None:
    response = Response()
    response.feed(b"HTTP/1.1 204 No Content\r\nX-A: 1\r\nx-a:  2 \r\n\r\n")
    assert response.headers == {"x-a": "1, 2"}
    assert response.is_complete


def test_a_header_cannot_break_out_of_its_line() -> None:
    assert b"".join(encode_request("GET", "/", {"host": "h"})) == b"GET / HTTP/1.1\r\nhost: h\r\n\r\n"
    assert encode_request("POST", "/", {"host": "h"})[0].endswith(b"content-length: 0\r\n\r\n")
    with pytest.raises(ValueError, match="line break"):
        encode_request("GET", "/", {"x": "a\r\nb: c"})
