"""Buffers the output of a command: all of it up to a limit, then its head and its tail.

Invariants: both streams together stay below the limit, whatever is written; what was left out is counted. If one stream
floods, it is cut first, so that a few lines of stderr survive next to a gigabyte of stdout.
"""

import codecs
from typing import Literal

from buddy.steps import Steps, at_once

LIMIT = 10 * 1024 * 1024

Stream = Literal["stdout", "stderr"]


class OutputBuffer:
    def __init__(self, limit: int = LIMIT) -> None:
        self._half = limit // 2
        self._heads: dict[Stream, bytearray] = {"stdout": bytearray(), "stderr": bytearray()}
        self._tails: dict[Stream, bytearray] = {"stdout": bytearray(), "stderr": bytearray()}
        self._dropped: dict[Stream, int] = {"stdout": 0, "stderr": 0}
        self._head_left = self._half

    def add(self, stream: Stream, chunk: bytes) -> None:
        head = min(self._head_left, len(chunk))
        self._heads[stream] += chunk[:head]
        self._head_left -= head
        self._tails[stream] += chunk[head:]
        excess = sum(map(len, self._tails.values())) - self._half
        if excess > 0:
            self._drop(excess)

    def text(self, stream: Stream) -> str:
        return "".join(at_once(self.pieces(stream)))

    def pieces(self, stream: Stream) -> Steps[list[str]]:
        """The text in pieces, some of which are long."""
        head, read = codecs.utf_8_decode(self._heads[stream], "replace", bool(self._dropped[stream]))
        yield
        tail = self._heads[stream][read:] + self._tails[stream]
        yield
        dropped = f"\n[... {self._dropped[stream]} bytes left out ...]\n" if self._dropped[stream] else ""
        return [piece for piece in (head, dropped, tail.decode("utf-8", "replace")) if piece]

    def _drop(self, excess: int) -> None:
        while excess > 0:
            stream: Stream = "stdout" if len(self._tails["stdout"]) >= len(self._tails["stderr"]) else "stderr"
            count = min(excess, len(self._tails[stream]))
            del self._tails[stream][:count]
            self._dropped[stream] += count
            excess -= count
