"""Answers over HTTP/1.1: the same however they are cut, and never more than their framing says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buddy.models.http1 import MAX_HEAD, MAX_LINE, Answer, Cut, request

BODY = b"data: {}\n\ndata: [DONE]\n\n"
CHUNKED = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"a;ext=1\r\ndata: {}\n\n\r\n0E\r\ndata: [DONE]\n\n\r\n0\r\nX-Trailer: 1\r\n\r\n"
)
LENGTH = b"HTTP/1.1 200 OK\r\nContent-Length: 24\r\n\r\n" + BODY
WAITS = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + LENGTH
BARE = b"HTTP/1.0 200 OK\nContent-Length: 24\nConnection: keep-alive\n\n" + BODY


def read(raw: bytes, cuts: list[int]) -> tuple[Answer, bytes]:
    answer, body, done = Answer(), b"", 0
    for cut in [*sorted({cut % len(raw) for cut in cuts}), len(raw)]:
        if raw[done:cut]:
            body += answer.feed(raw[done:cut])
        done = cut
    return answer, body


@pytest.mark.parametrize("raw", [CHUNKED, LENGTH, WAITS, BARE], ids=["chunked", "length", "waits", "bare lines"])
@given(cuts=st.lists(st.integers(0, 10_000), max_size=30))
def test_an_answer_is_the_same_however_it_is_cut(raw: bytes, cuts: list[int]) -> None:
    answer, body = read(raw, cuts)
    assert (answer.status, answer.is_done, answer.is_reusable, body) == (200, True, True, BODY)


def test_without_a_length_the_body_ends_with_the_connection() -> None:
    answer, body = read(b"HTTP/1.1 200 OK\r\n\r\n" + BODY, [])
    assert (body, answer.is_done) == (BODY, False)
    answer.end()
    assert (answer.is_done, answer.is_reusable) == (True, False)


@pytest.mark.parametrize("raw", [CHUNKED, LENGTH])
def test_an_end_before_the_end_is_noticed_everywhere(raw: bytes) -> None:
    for cut in range(len(raw)):
        answer = Answer()
        answer.feed(raw[:cut])
        with pytest.raises(Cut):
            answer.end()


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
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1" * (MAX_LINE + 1),
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * MAX_HEAD,
    ],
)
def test_what_is_no_answer_is_cut(raw: bytes) -> None:
    with pytest.raises(Cut):
        Answer().feed(raw)


def test_a_connection_is_not_used_again_after_more_than_was_said() -> None:
    assert not read(LENGTH + b"more", [])[0].is_reusable
    assert not read(LENGTH.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"), [])[0].is_reusable
    with pytest.raises(Cut):
        read(LENGTH, [])[0].feed(b"more")


def test_headers_are_told_by_name_in_any_case_and_joined() -> None:
    answer = Answer()
    answer.feed(b"HTTP/1.1 204 No Content\r\nX-A: 1\r\nx-a:  2 \r\n\r\n")
    assert answer.headers == {"x-a": "1, 2"}
    assert answer.is_done


def test_a_header_cannot_break_out_of_its_line() -> None:
    assert b"".join(request("GET", "/", {"host": "h"})) == b"GET / HTTP/1.1\r\nhost: h\r\n\r\n"
    assert request("POST", "/", {"host": "h"})[0].endswith(b"content-length: 0\r\n\r\n")
    with pytest.raises(ValueError, match="line break"):
        request("GET", "/", {"x": "a\r\nb: c"})
