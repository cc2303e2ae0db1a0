"""Our own styling: the only escape sequences that reach a terminal, and only where one is and wants them.

What always holds: without colour the words alone say everything.
"""

from collections.abc import Mapping
from typing import TextIO


class Style:
    """Wraps text that was escaped before; does nothing where it is off."""

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
    """Colour for a terminal that has some, unless NO_COLOR says otherwise."""
    return Style(on=stream.isatty() and not env.get("NO_COLOR") and env.get("TERM", "") not in ("", "dumb"))
