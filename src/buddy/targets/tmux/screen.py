"""Extract plain text from terminal output: between two marks, without escape sequences.

Invariants: nothing before the first mark or after the last is returned; a mark or escape sequence split across
pieces is still recognised.
"""

import re

MAX_HELD = 4096
MARK = b"\x1b]7770;"
END = b"\x1b\\"

_ESCAPES = re.compile(
    rb"\x1b\[[0-?]*[ -/]*[@-~]"  # colours, cursor
    rb"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)"  # titles and other strings
    rb"|\x1b[ -/]+[0-~]"  # character sets
    rb"|\x1b[0-Z\\^_`-~]"
    rb"|[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f]"
)
_LINE_END = re.compile(rb"\r+\n|\r")
_OPEN = re.compile(rb"(?:\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b]*\x1b?|[ -/]*)|\r+)\Z")


class PaneText:
    """Turns raw pieces into text. Without given marks, any mark counts."""

    def __init__(self, begin: bytes = b"", end: bytes = b"") -> None:
        self._begin = _mark(begin)
        self._end = _mark(end)
        self._held = b""
        self._begun = False
        self.over = False

    def take(self, piece: bytes) -> bytes:
        if self.over:
            return b""
        self._held += piece
        if not self._begun and not self._find_begin():
            return b""
        found = self._end.search(self._held)
        if found is not None:
            text, self._held, self.over = self._held[: found.start()], b"", True
            return _plain(text)
        open_end = _OPEN.search(self._held[-MAX_HELD:])
        keep = len(open_end[0]) if open_end else 0
        text, self._held = self._held[: len(self._held) - keep], self._held[len(self._held) - keep :]
        return _plain(text)

    def flush(self) -> bytes:
        text, self._held = self._held, b""
        return _plain(text) if self._begun and not self.over else b""

    def _find_begin(self) -> bool:
        found = self._begin.search(self._held)
        if found is not None:
            self._held, self._begun = self._held[found.end() :], True
        return self._begun


def _mark(token: bytes) -> "re.Pattern[bytes]":
    return re.compile(re.escape(MARK) + (re.escape(token) or rb"[0-9a-f]{48}") + re.escape(END))


def _plain(text: bytes) -> bytes:
    return _LINE_END.sub(b"\n", _ESCAPES.sub(b"", text))
