"""Find the line of a key in a TOML file, for error messages.

Invariants: the text has already been parsed, so it is valid TOML; for a key inside an inline table, the line of the
nearest enclosing key is returned.
"""

import re
from collections.abc import Iterator

_HEADER = re.compile(r"\s*\[\[?([^\[\]]+)\]\]?\s*(?:#.*)?$")
_KEY = re.compile(r"""\s*((?:"[^"]*"|'[^']*'|[\w-]+)(?:\s*\.\s*(?:"[^"]*"|'[^']*'|[\w-]+))*)\s*=(.*)$""")
_PART = re.compile(r""""([^"]*)"|'([^']*)'|([\w-]+)""")


def line_of(text: str, path: tuple[str, ...]) -> int | None:
    """The 1-based line of the key or table, or of the longest prefix of `path` that the file contains."""
    best, length = None, 0
    for number, found in _keys(text):
        if found[: len(path)] == path:
            return number
        if length < len(found) and path[: len(found)] == found:
            best, length = number, len(found)
    return best


def line_in_item(text: str, array: tuple[str, ...], item: int, path: tuple[str, ...]) -> int | None:
    """The same in one item of an array of tables; in an array that is written inline, the array's line."""
    lines = text.splitlines()
    headers = [number for number, line in enumerate(lines) if _HEADER.match(line)]
    items = [number for number in headers if (match := _HEADER.match(lines[number])) and _parts(match[1]) == array]
    if item >= len(items):
        return line_of(text, array)
    start = items[item]
    end = next((number for number in headers if number > start), len(lines))
    found = line_of("\n".join(lines[start:end]), path)
    return None if found is None else start + found


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
