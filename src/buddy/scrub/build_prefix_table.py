"""Generates `prefix_table.py`, the literal prefixes of the token formats: `python -m buddy.scrub.build_prefix_table`.

Invariants: every place where a format can start is found by one rare character of its literal prefix, so that ordinary
text costs a scan for a few characters. Computing the table at every start would take longer than the first scan.
"""

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from buddy.scrub.formats import PREFIXED
from buddy.scrub.multi_search import rare_heads

_ENOUGH = _WINDOW = 3
_LONGEST = _SMALL = 8
_ATOM = re.compile(
    r"\\(?P<escaped>[^\w])|(?P<literal>[A-Za-z0-9_~=/:$!@-])|(?P<digit>\\d)|\[(?P<any>[^\]]+)\]|\(\?:(?P<choice>[\w|-]+)\)"
)
_RANGE = re.compile(r"(\w)-(\w)")
_OPTIONAL = re.compile(r"[?*]|\{0")
_QUANTIFIER = re.compile(r"[{?*+]")


def source() -> str:
    """The text of `prefix_table.py`."""
    by_prefix: dict[str, list[str]] = {}
    for name, shape in PREFIXED.items():
        for prefix in literal_prefixes(shape):
            by_prefix.setdefault(prefix, []).append(name)
    scan, places, index = _tables(by_prefix)
    rows = [f"    {_text(window)}: ({' '.join(map(_row, entries))})," for window, entries in index.items()]
    lines = [
        '"""The literal prefixes of the token formats. Generated: `python -m buddy.scrub.build_prefix_table`."""',
        "",
        "# fmt: off",
        "# ruff: noqa: E501 - a table reads best with one row per line",
        f"WINDOW = {_WINDOW}",
        f"SCAN = {_text(scan)}",
        "PLACES: dict[str, tuple[int, ...]] = {",
        *(f"    {_text(head)}: {tuple(found)}," for head, found in places.items()),
        "}",
        "",
        "# By the characters of a window: the prefixes that contain it, its offset in them, and their formats.",
        "INDEX: dict[str, tuple[tuple[str, int, tuple[str, ...]], ...]] = {",
        *rows,
        "}",
    ]
    return "\n".join(lines) + "\n"


def _row(entry: "Entry") -> str:
    prefix, offset, names = entry
    return f"({_text(prefix)}, {offset}, ({' '.join(f'{_text(name)},' for name in names)})),"


def _text(text: str) -> str:
    return json.dumps(text)


Entry = tuple[str, int, tuple[str, ...]]


def _tables(by_prefix: Mapping[str, list[str]]) -> tuple[str, dict[str, list[int]], dict[str, list[Entry]]]:
    heads = rare_heads(list(by_prefix))
    index: dict[str, list[Entry]] = {}
    found: dict[str, set[int]] = {}
    for prefix, names in by_prefix.items():
        head = next(head for head in heads if head in prefix)
        at = prefix.index(head)
        window = min(max(0, at - 2), len(prefix) - _WINDOW)
        index.setdefault(prefix[window : window + _WINDOW], []).append((prefix, window, tuple(names)))
        found.setdefault(head, set()).add(at - window)
    places = {head: sorted(offsets) for head, offsets in found.items()}
    return "|".join(_around(head, places[head], index) for head in places), places, index


def literal_prefixes(shape: str) -> list[str]:
    """The literal texts that a pattern can start with: three to eight characters."""
    found = [""]
    at = 0
    while len(found[0]) < _LONGEST and (atom := _ATOM.match(shape, at)):
        options = _options(atom)
        is_optional = _OPTIONAL.match(shape, atom.end())
        if is_optional or (len(found[0]) >= _ENOUGH and len(options) > _SMALL):
            break
        found = [text + option for text in found for option in options]
        at = atom.end()
        if _QUANTIFIER.match(shape, at):
            break
    if min(map(len, found)) < _ENOUGH:
        raise ValueError(f"a pattern must start with three literal characters: {shape}")
    return found


def _options(atom: re.Match[str]) -> list[str]:
    if atom["any"]:
        listed = _RANGE.sub(lambda span: "".join(map(chr, range(ord(span[1]), ord(span[2]) + 1))), atom["any"])
        return sorted(set(listed))
    if atom["choice"]:
        return atom["choice"].split("|")
    return list("0123456789") if atom["digit"] else [atom["escaped"] or atom["literal"]]


def _around(head: str, places: Iterable[int], windows: Iterable[str]) -> str:
    """The head between its neighbours in a window, in which it can have several positions."""
    choices: list[str] = []
    for place in places:
        fitting = [window for window in windows if window[place] == head]
        classes = [_class({window[index] for window in fitting}) for index in range(_WINDOW)]
        before, after = "".join(classes[:place]), "".join(classes[place + 1 :])
        choices.append((f"(?<={before}{re.escape(head)})" if before else "") + (f"(?={after})" if after else ""))
    return f"{re.escape(head)}(?:{'|'.join(choices)})"


def _class(characters: set[str]) -> str:
    """A character class as short as possible: longer ones take longer to compile."""
    pieces: list[str] = []
    for character in sorted(characters):
        if pieces and ord(character) == ord(pieces[-1][-1]) + 1:
            pieces[-1] = pieces[-1][0] + character
        else:
            pieces.append(character)
    return f"[{''.join(map(_span, pieces))}]"


def _span(ends: str) -> str:
    return re.escape(ends) if len(ends) == 1 else f"{re.escape(ends[0])}-{re.escape(ends[1])}"


if __name__ == "__main__":
    Path(__file__).with_name("prefix_table.py").write_text(source(), encoding="utf-8")
