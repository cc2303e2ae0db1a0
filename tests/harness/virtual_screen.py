"""A terminal's screen in memory: printing, wrapping, wide characters, scrolling. It knows no escape sequences."""

import unicodedata

from wcwidth import wcwidth


class VirtualScreen:
    """`ambiguous` is the width of characters that Unicode calls ambiguous: terminals differ."""

    def __init__(self, columns: int, rows: int, ambiguous: int = 1) -> None:
        self._columns = columns
        self._rows = rows
        self._ambiguous = ambiguous
        self._lines: list[str] = [""]
        self._used = 0

    def write(self, text: str) -> None:
        for character in text:
            if character == "\n":
                self._open_line()
                continue
            assert character.isprintable() or character == " ", f"{character!r} reached the screen"
            width = self._width(character)
            if self._used + width > self._columns:
                self._open_line()
            self._lines[-1] += character
            self._used += width

    @property
    def lines(self) -> list[str]:
        """What is visible."""
        return self._lines[-self._rows :]

    def _open_line(self) -> None:
        self._lines.append("")
        self._used = 0

    def _width(self, character: str) -> int:
        if unicodedata.east_asian_width(character) == "A":
            return self._ambiguous if wcwidth(character) else 0
        return max(0, wcwidth(character))
