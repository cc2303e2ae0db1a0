"""Turns a question into a full-text query: its significant words, any of which may match.

Invariants: nothing that was typed acts as query syntax; a question of stop words alone matches nothing; the rarest
words come first and common ones are left out, so that the cost of a query does not grow with the index. A question of
common words alone is for the newest chunks that have them: such words say nothing about which one is meant.
"""

import re
from collections.abc import Callable, Sequence
from functools import cache
from itertools import accumulate
from typing import NamedTuple

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


class WordCount(NamedTuple):
    rows: int
    word: str


def count_words(text: str, rows_with: Callable[[str], int]) -> list[WordCount]:
    """The words to search for, the rarest first; `rows_with` counts the chunks that have a stem."""
    found = ((rows_with(stem(word)), word) for word in significant_words(text))
    return sorted(WordCount(rows, word) for rows, word in found if rows)


def are_common(words: Sequence[WordCount]) -> bool:
    """Whether even the rarest is in too many chunks to rank them."""
    return bool(words) and words[0].rows > MOST_ROWS


def any_of(words: Sequence[WordCount]) -> str:
    """An FTS5 query for the rarest of these; empty if there are none."""
    totals = accumulate(word.rows for word in words)
    return " OR ".join(f'"{word.word}"' for word, total in zip(words, totals, strict=True) if total <= MOST_ROWS)


def all_of(words: Sequence[WordCount]) -> str:
    return " AND ".join(f'"{word.word}"' for word in words)


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
