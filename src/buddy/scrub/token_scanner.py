"""Finds tokens of the formats with a literal prefix in one scan (see `build_prefix_table.py`)."""

import re
from collections.abc import Iterator
from functools import cache

from buddy.scrub.formats import PREFIXED, START
from buddy.scrub.lazy import LazyPattern
from buddy.scrub.marks import Span
from buddy.scrub.prefix_table import INDEX, PLACES, SCAN, WINDOW

_SCAN = LazyPattern(SCAN)


def spans(text: str) -> Iterator[Span]:
    for hit in _SCAN.finditer(text):
        for place in PLACES[hit[0]]:
            window = hit.start() - place
            for prefix, offset, names in INDEX.get(text[max(0, window) : window + WINDOW], ()):
                begin = window - offset
                if begin < 0 or not text.startswith(prefix, begin):
                    continue
                if token := _compiled(names).match(text, begin):
                    yield token.span()


@cache
def _compiled(names: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(f"{START}(?:{'|'.join(PREFIXED[name] for name in names)})")
