"""HTTP/1.1 as far as a model API needs it: the bytes of a request, and an answer put together as it comes.

What always holds:
- an answer ends where its own framing says; bytes that are no HTTP, or an end before that, are `Cut`;
- heads and lines have limits, bodies have none here: their bytes are handed on with every call;
- only an answer that was read to its end, on a connection the server keeps open, lets the connection be used again.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache

MAX_HEAD = 64 * 1024
MAX_LINE = 4 * 1024
_HEX = frozenset(b"0123456789abcdefABCDEF")


class Cut(ConnectionError):
    """The connection ended before the answer did, or what came over it is no answer."""


def request(method: str, target: str, headers: Mapping[str, str], body: Sequence[bytes] = ()) -> list[bytes]:
    """A whole request, in parts; a header that would break out of its line is refused."""
    head = _head(method, target, tuple(headers.items()))
    length = b"content-length: %d\r\n" % sum(map(len, body)) if body or method == "POST" else b""
    return [b"%b%b\r\n" % (head, length), *body]


@lru_cache(maxsize=16)
def _head(method: str, target: str, headers: tuple[tuple[str, str], ...]) -> bytes:
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers)]
    if any("\r" in line or "\n" in line for line in lines):
        raise ValueError("a line break in a header")
    return "\r\n".join([*lines, ""]).encode("ascii")


class Answer:
    """One answer, fed as it comes; `status` is 0 until its head is whole."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.is_done = False
        self.is_reusable = False
        self._rest = b""
        self._left: int | None = None  # of the body or of the present chunk; None: until the connection ends
        self._is_chunked = False
        self._after_chunk = False
        self._in_trailers = False

    def feed(self, data: bytes) -> bytes:
        """Take what came; give what of it belongs to the body."""
        if self.is_done:
            raise Cut("bytes after the end of the answer")
        if not self.status:
            data = self._read_heads(self._rest + data)
            if not self.status:
                return b""
        return self._chunks(data) if self._is_chunked else self._plain(data)

    def end(self) -> None:
        """The connection ended: that is the end of a body without a length, and of no other."""
        if not self.status or self._is_chunked or self._left:
            raise Cut("the connection ended before the answer did")
        self.is_done, self.is_reusable = True, False

    def _read_heads(self, data: bytes) -> bytes:
        """Read up to the body; answers that only say to wait are passed over."""
        while not self.status:
            end, size = _head_end(data)
            if end < 0:
                if len(data) > MAX_HEAD:
                    raise Cut("a head without an end")
                self._rest = data
                return b""
            self._read_head(data[:end].decode("latin-1"))
            data = data[end + size :]
        self._rest = b""
        return data

    def _read_head(self, head: str) -> None:
        first, *lines = head.splitlines()
        version, _, after = first.partition(" ")
        code = after[:3]
        if version not in ("HTTP/1.1", "HTTP/1.0") or not (code.isdecimal() and code.isascii() and len(code) == 3):
            raise Cut("what answered does not speak HTTP/1.1")
        if code[0] == "1":
            return
        self.headers = {}
        for line in lines:
            name, colon, value = line.partition(":")
            if not colon or not name or name != name.strip():
                raise Cut("a header line that is none")
            name, value = name.lower(), value.strip()
            self.headers[name] = f"{self.headers[name]}, {value}" if name in self.headers else value
        self.status = int(code)
        self._frame(version)

    def _frame(self, version: str) -> None:
        length = self.headers.get("content-length", "")
        self._is_chunked = "chunked" in self.headers.get("transfer-encoding", "").lower()
        if self.status in (204, 304):
            self._is_chunked, self._left = False, 0
        elif self._is_chunked:
            self._left = 0
        elif length:
            self._left = _number(length)
        connection = self.headers.get("connection", "").lower()
        stays = "close" not in connection and (version == "HTTP/1.1" or "keep-alive" in connection)
        self.is_reusable = stays and self._left is not None

    def _plain(self, data: bytes) -> bytes:
        if self._left is None:
            return data
        body = data[: self._left]
        self._left -= len(body)
        if not self._left:
            self._finish(data[len(body) :])
        return body

    def _chunks(self, data: bytes) -> bytes:
        data, self._rest = self._rest + data, b""
        pieces: list[bytes] = []
        at, left = 0, self._left or 0
        while not self.is_done and at < len(data):
            if left:
                piece = data[at : at + left]
                pieces.append(piece)
                at += len(piece)
                left -= len(piece)
                self._after_chunk = not left
                continue
            end = data.find(b"\n", at)
            if end < 0:
                if len(data) - at > MAX_LINE:
                    raise Cut("a line without an end between two chunks")
                self._rest = data[at:]
                break
            left = self._read_line(data[at:end].rstrip(b"\r"))
            at = end + 1
            if left and data.startswith(b"\r\n", at + left):  # all of it is there, as mostly in a burst
                pieces.append(data[at : at + left])
                at += left + 2
                left = 0
        self._left = left
        if self.is_done:
            self._finish(data[at:])
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _read_line(self, line: bytes) -> int:
        """A line between chunks; gives the size of the next chunk where it says one."""
        if self._in_trailers:
            self.is_done = not line
        elif self._after_chunk:
            if line:
                raise Cut("a chunk that is longer than it says")
            self._after_chunk = False
        else:
            size = _chunk_size(line)
            self._in_trailers = not size
            return size
        return 0

    def _finish(self, rest: bytes) -> None:
        self.is_done = True
        if rest:
            self.is_reusable = False


def _head_end(data: bytes) -> tuple[int, int]:
    """Where a head ends, and how long its end is."""
    end = data.find(b"\r\n\r\n")
    if end >= 0:
        return end, 4
    return data.find(b"\n\n"), 2


def _number(text: str) -> int:
    # A length that was sent twice comes as `5, 5`.
    texts = {part.strip() for part in text.split(",")}
    number = texts.pop()
    if texts or not (number.isascii() and number.isdecimal()):
        raise Cut(f"a length that is none: {text[:40]}")
    return int(number)


@lru_cache(maxsize=1024)
def _chunk_size(line: bytes) -> int:
    digits = line.partition(b";")[0].strip()
    if not digits or len(digits) > 15 or not _HEX.issuperset(digits):
        raise Cut("a chunk that says no size")
    return int(digits, 16)
