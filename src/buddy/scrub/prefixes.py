"""Many patterns, each told by its first characters, looked for in one scan.

What always holds: every place where a pattern can begin is found by one rare character of its literal beginning, so
that ordinary text costs a scan for a few characters.
"""

import re
from collections.abc import Iterable, Iterator
from functools import cache

from buddy.scrub.anchors import rare_heads
from buddy.scrub.marks import Span

_ENOUGH = _WINDOW = 3
_LONGEST = _SMALL = 8
_ATOM = re.compile(
    r"\\(?P<escaped>[^\w])|(?P<literal>[A-Za-z0-9_~=/:$!@-])|(?P<digit>\\d)|\[(?P<any>[^\]]+)\]|\(\?:(?P<choice>[\w|-]+)\)"
)
_RANGE = re.compile(r"(\w)-(\w)")
_OPTIONAL = re.compile(r"[?*]|\{0")
_QUANTIFIER = re.compile(r"[{?*+]")


Entry = tuple[str, int, str]  # a beginning, where its window lies in it, the pattern of what may begin so

# Compiled when something first begins like it: all of them at once would cost every start of the program.
_compiled = cache(re.compile)


class Prefixes:
    def __init__(self, shapes: Iterable[str], start: str) -> None:
        by_prefix: dict[str, list[str]] = {}
        for shape in shapes:
            for prefix in beginnings(shape):
                by_prefix.setdefault(prefix, []).append(shape)
        heads = rare_heads(list(by_prefix))
        self._index: dict[str, list[Entry]] = {}
        places: dict[str, set[int]] = {}
        for prefix, found in by_prefix.items():
            head = next(head for head in heads if head in prefix)
            at = prefix.index(head)
            window = min(max(0, at - 2), len(prefix) - _WINDOW)
            entry = prefix, window, f"{start}(?:{'|'.join(found)})"
            self._index.setdefault(prefix[window : window + _WINDOW], []).append(entry)
            places.setdefault(head, set()).add(at - window)
        self._places = {head: sorted(found) for head, found in places.items()}
        self._scan = re.compile("|".join(_around(head, self._places[head], self._index) for head in self._places))

    def spans(self, text: str) -> Iterator[Span]:
        for hit in self._scan.finditer(text):
            for place in self._places[hit[0]]:
                window = hit.start() - place
                for prefix, offset, pattern in self._index.get(text[max(0, window) : window + _WINDOW], ()):
                    begin = window - offset
                    if begin < 0 or not text.startswith(prefix, begin):
                        continue
                    if token := _compiled(pattern).match(text, begin):
                        yield token.span()


def beginnings(shape: str) -> list[str]:
    """The literal texts that a pattern can begin with: three to eight characters."""
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
        raise ValueError(f"a pattern must begin with three known characters: {shape}")
    return found


def _options(atom: re.Match[str]) -> list[str]:
    if atom["any"]:
        listed = _RANGE.sub(lambda span: "".join(map(chr, range(ord(span[1]), ord(span[2]) + 1))), atom["any"])
        return sorted(set(listed))
    if atom["choice"]:
        return atom["choice"].split("|")
    return list("0123456789") if atom["digit"] else [atom["escaped"] or atom["literal"]]


def _around(head: str, places: Iterable[int], windows: Iterable[str]) -> str:
    """The head between characters that stand beside it in a window; it can have several places in one."""
    choices: list[str] = []
    for place in places:
        fitting = [window for window in windows if window[place] == head]
        classes = [_class({window[index] for window in fitting}) for index in range(_WINDOW)]
        before = "".join(classes[:place])
        choices.append((f"(?<={before}{re.escape(head)})" if before else "") + f"(?={''.join(classes[place + 1 :])})")
    return f"{re.escape(head)}(?:{'|'.join(choices)})"


def _class(characters: set[str]) -> str:
    return f"[{''.join(map(re.escape, sorted(characters)))}]"
