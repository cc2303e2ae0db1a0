"""Searches for many fixed strings in one scan: each is found by its rarest three characters.

Invariants: every occurrence of every string is reported, overlapping ones too; a text without any of the rare
characters costs one scan for a character class. Aho-Corasick in Python is many times slower, and a compiled
one would be a dependency for a few dozen strings.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

SKIPPED = 2  # the anchor never includes the first characters: a hit at the start of a line may lack them

# From frequent to rare in source, prose and listings; characters that are missing here are the rarest.
_FREQUENT = " etaoinrslcdpum_fhg.,-=/()0b1yv\"':w2k3x456789qjz#><[]{}STAEICRNODPLMFBUHGVWKYXQJZ"
_RANK = {character: len(_FREQUENT) - index for index, character in enumerate(_FREQUENT)}


class MultiSearch:
    def __init__(self, needles: Sequence[str]) -> None:
        self._index: dict[str, list[tuple[str, int]]] = {}
        heads = set(rare_heads([needle[SKIPPED:-2] for needle in needles]))
        for needle in needles:
            offset = _offset(needle, heads)
            self._index.setdefault(needle[offset : offset + 3], []).append((needle, offset))
        self._scan = re.compile(three_characters(self._index))

    def any_in(self, text: str) -> bool:
        return self._scan.search(text) is not None

    def candidates(self, text: str) -> Iterator[tuple[str, int]]:
        """Each needle whose anchor occurs, and where the needle would start (negative if its head is missing)."""
        for hit in self._scan.finditer(text):
            at = hit.start()
            for needle, offset in self._index.get(text[at : at + 3], ()):
                yield needle, at - offset


def rare_heads(texts: Sequence[str]) -> list[str]:
    """A small set of rare characters such that each text contains one of them, chosen greedily."""
    options = [set(text) for text in texts]
    heads: list[str] = []
    while options:
        counts: dict[str, int] = {}
        for option in options:
            for character in option:
                counts[character] = counts.get(character, 0) + 1
        best = max(sorted(counts), key=lambda character: counts[character] / (_RANK.get(character, 0) + 1) ** 2)
        heads.append(best)
        options = [option for option in options if best not in option]
    return heads


def _offset(needle: str, heads: set[str]) -> int:
    def commonness(offset: int) -> int:
        return sum(_RANK.get(character, 0) for character in needle[offset : offset + 3])

    usable = range(SKIPPED, len(needle) - 2)
    return min((offset for offset in usable if needle[offset] in heads), key=commonness)


def three_characters(anchors: Iterable[str]) -> str:
    """A pattern that matches all of these and some more; it consumes one character, so that overlaps are found."""
    groups: dict[str, tuple[set[str], set[str]]] = {}
    for first, second, third in anchors:
        seconds, thirds = groups.setdefault(first, (set(), set()))
        seconds.add(second)
        thirds.add(third)
    return "|".join(
        f"{re.escape(first)}(?={_class(seconds)}{_class(thirds)})" for first, (seconds, thirds) in groups.items()
    )


def _class(characters: set[str]) -> str:
    return f"[{''.join(map(re.escape, sorted(characters)))}]"
