"""Our own styling: the only escape sequences written to a terminal, and only to one that wants them.

Invariants: without colour, the words alone carry the meaning.
"""

from collections.abc import Mapping
from typing import TextIO


class Style:
    """Wraps text that is already escaped; does nothing when off."""

    def __init__(self, *, on: bool) -> None:
        self.on = on

    def bold(self, text: str) -> str:
        return self._wrap("1", text)

    def dim(self, text: str) -> str:
        return self._wrap("2", text)

    def red(self, text: str) -> str:
        return self._wrap("31;1", text)

    def green(self, text: str) -> str:
        return self._wrap("32", text)

    def yellow(self, text: str) -> str:
        return self._wrap("33", text)

    def cyan(self, text: str) -> str:
        return self._wrap("36", text)

    def _wrap(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.on and text else text


def style_of(stream: TextIO, env: Mapping[str, str]) -> Style:
    """Colour for a terminal that supports it, unless NO_COLOR is set."""
    return Style(on=stream.isatty() and not env.get("NO_COLOR") and env.get("TERM", "") not in ("", "dumb"))
