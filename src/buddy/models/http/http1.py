"""HTTP/1.1 messages: the bytes of a request, and a response that httptools parses as it arrives.

Invariants:
- a response ends where its own framing says; bytes that are not HTTP/1.x, ambiguous framing (a length and chunks at
  once, two lengths, folded headers, bare line feeds) or an earlier end of the connection raise `TruncatedResponse`;
- headers, chunk lines and trailers are limited; bodies are not: their bytes are returned by every `feed`;
- only a response that was read to its end, on a connection that the server keeps open, leaves the connection reusable.
"""

from collections.abc import Mapping, Sequence

from httptools import HttpParserError, HttpResponseParser

MAX_HEAD = 64 * 1024
"""How many bytes may arrive without one of the body among them: headers, a chunk extension, trailers."""


_CLOSES_ANYWAY = ("llama.cpp",)
"""Servers that promise to keep the connection and close it a moment later: the next request would be lost."""


class TruncatedResponse(ConnectionError):
    """The connection ended before the response did, or what arrived is not a response."""


def encode_request(method: str, target: str, headers: Mapping[str, str], body: Sequence[bytes] = ()) -> list[bytes]:
    """A complete request, in parts; ValueError for a header with a line break."""
    return add_body(encode_head(method, target, headers), method, body)


def add_body(head: bytes, method: str, body: Sequence[bytes]) -> list[bytes]:
    length = b"content-length: %d\r\n" % sum(map(len, body)) if body or method == "POST" else b""
    return [b"%b%b\r\n" % (head, length), *body]


def encode_head(method: str, target: str, headers: Mapping[str, str]) -> bytes:
    """The request line and the headers, without what the body adds to them."""
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    if any("\r" in line or "\n" in line for line in lines):
        raise ValueError("a header contains a line break")
    return "\r\n".join([*lines, ""]).encode("ascii")


class Response:
    """One response, fed as it arrives; `status` is 0 until all of its headers are there."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.is_complete = False
        self.is_reusable = False
        self._pieces: list[bytes] = []
        self._head_size = 0
        self._without_body = 0
        self._ends_with_connection = False
        self.on_body = self._pieces.append  # called by the parser for every chunk, without a Python frame
        self._parser: HttpResponseParser | None = HttpResponseParser(self)

    def feed(self, data: bytes) -> bytes:
        """Take what arrived; return the part of it that belongs to the body."""
        if self._parser is None:
            raise TruncatedResponse("bytes after the end of the response")
        try:
            self._parser.feed_data(data)
        except HttpParserError as error:
            if not self.is_complete:
                cause = error.__context__
                raise cause if isinstance(cause, TruncatedResponse) else _invalid(error) from error
            self.is_reusable = False  # it is complete, and something follows that nobody asked for
        if self.is_complete:
            self._parser = None  # it refers back to this object
        body = b"".join(self._pieces)
        self._pieces.clear()
        self._without_body = 0 if body else self._without_body + len(data)
        if self._without_body > MAX_HEAD:
            raise TruncatedResponse(f"more than {MAX_HEAD} bytes of headers")
        return body

    def end(self) -> None:
        """The connection ended: that is the end of a body without a length, and of no other."""
        if not self._ends_with_connection:
            raise TruncatedResponse("the connection ended before the response did")
        self.is_complete, self.is_reusable = True, False

    # --- called by the parser --------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        if self.is_complete:
            raise TruncatedResponse("a second response")

    def on_header(self, name: bytes, value: bytes) -> None:
        self._head_size += len(name) + len(value)
        if self._head_size > MAX_HEAD:
            raise TruncatedResponse(f"more than {MAX_HEAD} bytes of headers")
        if not self.status:  # else it is a trailer
            key, text = name.decode("latin-1").lower(), value.decode("latin-1").strip()
            self.headers[key] = f"{self.headers[key]}, {text}" if key in self.headers else text

    def on_headers_complete(self) -> None:
        assert self._parser is not None  # noqa: S101 - the parser is calling
        status, version = self._parser.get_status_code(), self._parser.get_http_version()
        if status < 100 or version not in ("1.0", "1.1"):
            raise TruncatedResponse("the server does not speak HTTP/1.1")
        if status == 101:
            raise TruncatedResponse("the server switched protocols without being asked")
        if status < 200:  # an interim response; the real one follows
            self.headers = {}
            return
        coding = self.headers.get("transfer-encoding", "")
        if coding and coding.lower() != "chunked":
            raise TruncatedResponse(f"unsupported transfer encoding {coding[:40]!r}")
        has_no_body = status in (204, 304)
        self._ends_with_connection = not (has_no_body or coding or "content-length" in self.headers)
        self.status = status

    def on_message_complete(self) -> None:
        if self.status and self._parser is not None:
            is_kept = self._parser.should_keep_alive() and self.headers.get("server") not in _CLOSES_ANYWAY
            self.is_complete, self.is_reusable = True, is_kept


def _invalid(error: HttpParserError) -> TruncatedResponse:
    return TruncatedResponse(f"the server does not speak valid HTTP/1.1: {error}")
