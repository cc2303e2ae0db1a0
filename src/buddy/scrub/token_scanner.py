"""Finds tokens of the formats with a literal prefix in one scan (see `build_prefix_table.py`).

Invariants: a token starts where a word starts, so of a long word only the first characters are looked up.
"""

import re
from collections.abc import Iterator
from functools import cache

from buddy.scrub.formats import PREFIXED, START
from buddy.scrub.lazy import LazyPattern
from buddy.scrub.marks import Span
from buddy.scrub.prefix_table import INDEX, PLACES, SCAN, WINDOW

_SCAN = LazyPattern(SCAN)
# Longer than any prefix and the escape before it: no token starts this far into a word.
_INSIDE = LazyPattern(r"(?<=[A-Za-z0-9]{12})[A-Za-z0-9]*+")


def spans(text: str) -> Iterator[Span]:
    skipped = 0
    for hit in _SCAN.finditer(text):
        at = hit.start()
        if at < skipped:
            continue
        for place in PLACES[hit[0]]:
            window = at - place
            for prefix, offset, names in INDEX.get(text[max(0, window) : window + WINDOW], ()):
                begin = window - offset
                if begin < 0 or not text.startswith(prefix, begin):
                    continue
                if token := _compiled(names).match(text, begin):
                    yield token.span()
                elif inside := _INSIDE.match(text, at):
                    skipped = inside.end()


@cache
def _compiled(names: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(f"{START}(?:{'|'.join(PREFIXED[name] for name in names)})")
