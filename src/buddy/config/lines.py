"""Find the line of a TOML file on which a key stands, for error messages.

Invariants: the text was parsed before, so it is valid TOML; where the key is hidden inside an inline table, the
line of the nearest key around it is given.
"""

import re
from collections.abc import Iterator

_HEADER = re.compile(r"\s*\[\[?([^\[\]]+)\]\]?\s*(?:#.*)?$")
_KEY = re.compile(r"""\s*((?:"[^"]*"|'[^']*'|[\w-]+)(?:\s*\.\s*(?:"[^"]*"|'[^']*'|[\w-]+))*)\s*=(.*)$""")
_PART = re.compile(r""""([^"]*)"|'([^']*)'|([\w-]+)""")


def line_of(text: str, path: tuple[str, ...]) -> int | None:
    """The line, from 1, of the key or table; else of the longest beginning of `path` that the file spells out."""
    best, length = None, 0
    for number, found in _keys(text):
        if found[: len(path)] == path:
            return number
        if length < len(found) and path[: len(found)] == found:
            best, length = number, len(found)
    return best


def _keys(text: str) -> Iterator[tuple[int, tuple[str, ...]]]:
    table: tuple[str, ...] = ()
    open_quote = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if open_quote:
            open_quote = "" if line.count(open_quote) % 2 else open_quote
        elif header := _HEADER.match(line):
            table = _parts(header[1])
            yield number, table
        elif key := _KEY.match(line):
            yield number, table + _parts(key[1])
            open_quote = next((quote for quote in ('"""', "'''") if key[2].count(quote) % 2), "")


def _parts(dotted: str) -> tuple[str, ...]:
    return tuple(double or single or bare for double, single, bare in _PART.findall(dotted))
