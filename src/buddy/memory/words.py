"""Turns a question into a full-text query: its significant words, any of which may match.

Invariants: nothing that was typed acts as query syntax; a question of stop words alone matches nothing; the rarest
words come first and common ones are left out, so that the cost of a query does not grow with the index.
"""

import re
from collections.abc import Callable
from functools import cache

import apsw

MOST_TERMS = 24
MOST_ROWS = 2000

_WORD = re.compile(r"\w+")
_STOP = frozenset(
    _WORD.findall(
        "a about an and any are as at be been but by can could did do does for from get had has have he her his how i "
        "if in into is it its just me my no not of on or our out please shall she should so some than that the their "
        "them then there these they this to too up us was we were what when where which who why will with would you "
        "your"
    )
)


def build_query(text: str, rows_with: Callable[[str], int]) -> str:
    """An FTS5 query; empty if there is nothing to search for. `rows_with` counts the chunks that have a stem."""
    counted = sorted((count, term) for term in significant_words(text) if (count := rows_with(stem(term))))
    chosen: list[str] = []
    rows = 0
    for count, term in counted:
        if chosen and rows + count > MOST_ROWS:
            break
        rows += count
        chosen.append(f'"{term}"')
    return " OR ".join(chosen)


def significant_words(text: str) -> list[str]:
    """The significant words, each once; if there are too many, the longest, which are mostly the rarest."""
    found = dict.fromkeys(word for word in _WORD.findall(text.lower()) if word not in _STOP and len(word) > 1)
    if len(found) <= MOST_TERMS:
        return list(found)
    return sorted(found, key=len, reverse=True)[:MOST_TERMS]


def stem(word: str) -> str:
    """The word as it is in the index."""
    found = _tokenizer()(
        word.encode(errors="replace"), apsw.FTS5_TOKENIZE_QUERY, None, include_offsets=False, include_colocated=False
    )
    return next((stem for stem in found if isinstance(stem, str)), word)


@cache
def _tokenizer() -> apsw.FTS5Tokenizer:
    return apsw.Connection(":memory:").fts5_tokenizer("porter", ["unicode61"])
