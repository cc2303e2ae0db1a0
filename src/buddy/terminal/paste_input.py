"""The keyboard, with pastes told from typing also where the terminal does not mark them.

Invariants: only text that nobody types counts as a paste: several long lines that arrive at once, none of them a
command; it is handed on as a marked paste is, so nothing in it submits or decides. Everything else is keys.
"""

import re
import select
from collections.abc import Callable
from typing import TextIO

from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.key_binding import KeyPress
from prompt_toolkit.keys import Keys

LEAST_LINES = 3
LEAST_CHARACTERS = 100
REST_SECONDS = 0.03
"""How long to wait for the next part of a paste: they follow each other without a pause."""
MOST_CHARACTERS = 16 * 1024 * 1024
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_FOCUS = re.compile(r"\x1b\[([IO])")
_START, _END = "\x1b[200~", "\x1b[201~"


class PasteInput(Vt100Input):
    _is_marked = False
    _tail = ""

    def __init__(self, stdin: TextIO) -> None:
        super().__init__(stdin)
        self.on_focus: Callable[[bool], None] = lambda _: None

    def read_keys(self) -> list[KeyPress]:
        data = self._take_focus(self.stdin_reader.read())
        if not self._is_marked and may_be_paste(data):
            data = self._read_rest(data)
            if is_paste(data):
                return [*self.flush_keys(), KeyPress(Keys.BracketedPaste, data)]
        self._follow_marks(data)
        self.vt100_parser.feed(data)
        keys, self._buffer = self._buffer, []
        return keys

    def _take_focus(self, data: str) -> str:
        """The input without the terminal's reports of its focus, which are no keys."""
        if self._is_marked or _FOCUS.search(data) is None:
            return data
        for report in _FOCUS.findall(data):
            self.on_focus(report == "I")
        return _FOCUS.sub("", data)

    def _read_rest(self, data: str) -> str:
        parts, size = [data], len(data)
        while size < MOST_CHARACTERS and select.select([self.fileno()], [], [], REST_SECONDS)[0]:
            part = self.stdin_reader.read()
            if not part:
                break
            parts.append(part)
            size += len(part)
        return "".join(parts)

    def _follow_marks(self, data: str) -> None:
        """Note whether a marked paste is under way; a mark may be split between two reads."""
        seen = self._tail + data
        started, ended = seen.rfind(_START), seen.rfind(_END)
        if started != ended:
            self._is_marked = started > ended
        self._tail = seen[1 - len(_START) :]


def may_be_paste(data: str) -> bool:
    """Whether this could be the beginning of an unmarked paste: long, and more follows a line's end."""
    return len(data) >= LEAST_CHARACTERS and "\r" in data[:-1] and not _CONTROL.search(data)


def is_paste(data: str) -> bool:
    lines = data.split("\r")
    has_command = any(line.startswith(("/", "!")) for line in lines)
    return len(lines) > LEAST_LINES and not has_command and not _CONTROL.search(data)
