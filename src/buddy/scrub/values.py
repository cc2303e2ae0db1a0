"""Registered values: every form of every secret, found in one scan.

What always holds:
- overlapping hits become one mark, so that no part of a second secret is left beside the first;
- a mark in the text is never cut or covered, so masking twice changes nothing;
- a text without a hit costs one scan, and nothing while nothing is registered.
"""

import bisect
import re

from buddy.scrub.encodings import forms

MARK = "[REDACTED]"


class Values:
    """A set of secrets that grows, and the patterns made from it."""

    def __init__(self) -> None:
        self._needles: set[str] = set()
        self._sorted: list[str] = []
        self._any: re.Pattern[str] | None = None
        self._each: re.Pattern[str] | None = None
        self._firsts: re.Pattern[str] | None = None
        self.longest = 0

    def add(self, secret: str) -> None:
        new = forms(secret) - self._needles
        # The mark itself stays readable, whatever is registered.
        new.discard(MARK)
        if new:
            self._needles |= new
            self._compile()

    def mask(self, text: str) -> str:
        if self._any is None or self._any.search(text) is None:
            return text
        return MARK.join(self.mask_part(part, len(part), 0)[0] for part in text.split(MARK))

    def mask_part(self, part: str, cut: int, covered: int) -> tuple[str, int]:
        """Mask what begins before `cut`, in a part without marks whose first `covered` characters are hidden already.

        Gives the text up to the cut, and how many characters after it are hidden by then.
        """
        pieces: list[str] = []
        done = covered
        for hit in self._each.finditer(part) if self._each else ():
            start = hit.start()
            if start >= cut:
                break
            if start >= done:
                pieces += (part[done:start], MARK)
            done = max(done, hit.end(1))
        if done < cut:
            pieces.append(part[done:cut])
        return "".join(pieces), max(done - cut, 0)

    def open_at(self, part: str) -> int:
        """From where the end of this part could still become a hit or a mark; its length where it cannot."""
        size = len(part)
        open_mark = _open_mark(part)
        held = min(self._open_value(part), open_mark)
        if open_mark == size or self._each is None:
            return held
        # Once whole, the mark wins over values that reach into it: they cannot be decided before it is.
        reaching = (hit.start() for hit in self._each.finditer(part) if hit.end(1) > open_mark)
        return min(held, next(reaching, held))

    def _open_value(self, part: str) -> int:
        size = len(part)
        if self._firsts is None:
            return size
        for first in self._firsts.finditer(part, max(0, size - self.longest + 1)):
            rest = part[first.start() :]
            index = bisect.bisect_right(self._sorted, rest)
            if index < len(self._sorted) and self._sorted[index].startswith(rest):
                return first.start()
        return size

    def _compile(self) -> None:
        self._sorted = sorted(self._needles)
        self.longest = max(map(len, self._needles))
        any_needle = _alternation(self._sorted)
        self._any = re.compile(any_needle)
        self._each = re.compile(f"(?=({any_needle}))")
        self._firsts = re.compile(f"[{re.escape(''.join({needle[0] for needle in self._needles}))}]")


def _alternation(needles: list[str]) -> str:
    """One pattern, branching on the first characters so that most positions fail at once; longer needles first."""
    groups: dict[str, list[str]] = {}
    for needle in sorted(needles, key=len, reverse=True):
        groups.setdefault(needle[:2], []).append(needle[2:])
    return "|".join(f"{re.escape(head)}(?:{'|'.join(map(re.escape, tails))})" for head, tails in groups.items())


def _open_mark(part: str) -> int:
    start = part.rfind(MARK[0])
    return start if start >= 0 and MARK.startswith(part[start:]) else len(part)
