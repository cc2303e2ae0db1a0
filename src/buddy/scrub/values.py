"""Registered values: every form of every secret, found in one scan.

Invariants:
- a value is found across line breaks, as if a terminal had wrapped the text anywhere; if the wrap leaves only one or
  two characters of it on the previous line, those stay and the rest is hidden;
- a value is found with colours, control, invisible and overstruck characters inside it (see `noise.py`);
- overlapping hits become one mark, so that no part of a second secret remains next to the first;
- a mark in the text is never cut or covered, so masking twice changes nothing;
- a text without a hit costs one scan, or nothing if no value is registered.
"""

import bisect
from collections.abc import Iterator

from buddy.scrub.encodings import MIN_LENGTH, forms
from buddy.scrub.lazy import LazyPattern
from buddy.scrub.marks import MARK, Span
from buddy.scrub.multi_search import SKIPPED, MultiSearch, three_characters
from buddy.scrub.noise import DEEPEST, KINDS, OVERSTRUCK, has_noise, kinds_of_noise, only_noise, open_noise
from buddy.steps import Steps, at_once

NOISE_WITHIN = 16 * 1024
"""How much noise a value may have inside: more would have to be held back without end."""

_BREAK = LazyPattern(r"\r?\n")

Wrapped = frozenset[LazyPattern]
"""Without which kinds of noise a text begins a line. The kinds differ in what they remove after the line break."""
UNWRAPPED: Wrapped = frozenset()
_AFTER_BREAK: Wrapped = KINDS | {_BREAK}


def wrapped_after(text: str, before: Wrapped) -> Wrapped:
    """What follows this text begins a line, as far as the text ends with a line break, or with one and noise."""
    newline = text.rfind("\n")
    return only_noise(text[newline + 1 :], _AFTER_BREAK if newline >= 0 else before)


class Values:
    """A growing set of secrets and the index to find them."""

    def __init__(self) -> None:
        self._needles: set[str] = set()
        self._sorted: list[str] = []
        self._search: MultiSearch | None = None
        self._firsts: LazyPattern | None = None
        self.longest = 0
        self.has_spaces = False

    def add(self, secret: str) -> None:
        new = {_without_breaks(form) for form in forms(secret)} - self._needles
        # The mark itself stays readable, whatever is registered.
        new.discard(MARK)
        new = {form for form in new if len(form) >= MIN_LENGTH}
        if new:
            self._needles |= new
            self._compile()

    @property
    def empty(self) -> bool:
        return not self._needles

    def may_hold(self, part: str, *, noisy: bool) -> bool:
        """Whether it may contain a value; False is certain. `noisy` says whether it contains noise."""
        if self._search is None:
            return False
        if self._search.any_in(_without_breaks(part)):
            return True
        return noisy and any(self._search.any_in(noise.sub("", part)) for noise in kinds_of_noise(part))

    def mask(self, text: str) -> str:
        if self.empty or not self.may_hold(text, noisy=has_noise(text)) or not any(self._hits(text)):
            return text
        return MARK.join(at_once(self.mask_part(part, len(part)))[0] for part in text.split(MARK))

    def mask_part(self, part: str, cut: int, covered: int = 0, wrapped: Wrapped = UNWRAPPED) -> Steps[tuple[str, int]]:
        """Mask what starts before `cut`, in a part without marks whose first `covered` characters are hidden already.

        `wrapped` says whether a line break precedes the part. Returns the text up to the cut, and how many characters
        after it are hidden as well.
        """
        pieces: list[str] = []
        done = covered
        hits: list[Span] = []
        for hit in self._hits(part, wrapped):
            hits.append(hit)
            yield
        for start, end in sorted(hits):
            if start >= cut:
                break
            if start >= done:
                pieces += (part[done:start], MARK)
            done = max(done, end)
        if done < cut:
            pieces.append(part[done:cut])
        return "".join(pieces), max(done - cut, 0)

    def open_at(self, part: str) -> Steps[int]:
        """The position from which the end of this part could become a hit or a mark; its length if it can't."""
        size = len(part)
        open_mark = _open_mark(part)
        held = min((yield from self._open_value(part)), open_mark)
        if open_mark == size:
            return held
        # Once complete, the mark wins over values that reach into it: they can't be decided before it is.
        reaching = (start for start, end in sorted(self._hits(part)) if end > open_mark)
        return min(held, next(reaching, held))

    def _hits(self, part: str, wrapped: Wrapped = UNWRAPPED) -> Iterator[Span]:
        yield from self._find(part, _without_breaks(part), _BREAK, wrapped=_BREAK in wrapped)
        # Besides, not instead: what looks like noise may be the beginning of a value.
        kinds = kinds_of_noise(part) if has_noise(part) else ()
        # Without noise in the part, only those that begin a line where the part as it is does not.
        for noise in kinds or (() if _BREAK in wrapped else wrapped):
            yield from self._find(part, noise.sub("", part), noise, wrapped=noise in wrapped)

    def _find(self, part: str, joined: str, removed: LazyPattern, *, wrapped: bool) -> Iterator[Span]:
        """The values in a part of which something was removed."""
        if self._search is None:
            return
        breaks: Breaks | None = None
        for needle, start in self._search.candidates(joined):
            if start < -SKIPPED or not joined.startswith(needle[SKIPPED:], start + SKIPPED):
                continue
            breaks = breaks or Breaks(part, removed, wrapped=wrapped)
            begin = breaks.begin(start)
            if begin > start or (start >= 0 and joined.startswith(needle, start)):
                hit = breaks.before(begin), breaks.before(start + len(needle) - 1) + 1
                if hit[1] - hit[0] <= self.longest + NOISE_WITHIN:
                    yield hit

    def _open_value(self, part: str) -> Steps[int]:
        held = self._open(part, _without_breaks(part), _BREAK)
        yield
        # Not in what may still be removed itself.
        quiet = part[: open_noise(part)]
        is_noisy = has_noise(part) or len(quiet) < len(part)
        for noise in kinds_of_noise(part) if is_noisy else ():
            held = min(held, self._open_without(noise, quiet, held))
            yield
        # Of the last characters, some may still be taken back.
        for size in range(len(quiet) - 1, max(len(quiet) - 1 - DEEPEST, -1), -1):
            if quiet[size].isspace():
                break
            held = min(held, self._open_without(OVERSTRUCK, quiet[:size], held))
            yield
        return held

    def _open_without(self, noise: LazyPattern, part: str, otherwise: int) -> int:
        at = self._open(part, noise.sub("", part), noise)
        return at if at < len(part) else otherwise

    def _open(self, part: str, joined: str, removed: LazyPattern) -> int:
        size = len(part)
        if self._firsts is None:
            return size
        # After a line break, one or two characters are too few to wait for: see the invariants.
        fewest = 3 if part.endswith("\n") else 1
        from_here = max(0, len(joined) - self.longest + 1)
        starts = [first.start() for first in self._firsts.finditer(joined, from_here)]
        breaks: Breaks | None = None
        for start in [*starts, *range(max(from_here, len(joined) - 2), len(joined) - fewest + 1)]:
            rest = joined[start:]
            index = bisect.bisect_right(self._sorted, rest)
            if index < len(self._sorted) and self._sorted[index].startswith(rest):
                breaks = breaks or Breaks(part, removed, wrapped=False)
                at = breaks.before(start)
                if size - at < self.longest + NOISE_WITHIN:
                    return at
        return size

    def _compile(self) -> None:
        self._sorted = sorted(self._needles)
        self.longest = max(map(len, self._needles))
        self.has_spaces = any(" " in needle for needle in self._needles)
        self._search = MultiSearch(self._sorted)
        self._firsts = LazyPattern(three_characters({needle[:3] for needle in self._needles}))


class Breaks:
    """What was removed from a part, and by how much it shifts what follows."""

    def __init__(self, part: str, pattern: LazyPattern, *, wrapped: bool) -> None:
        self._at: list[int] = [0] if wrapped else []
        self._pushed: list[int] = [0] if wrapped else []
        self._lines: list[int] = [0] if wrapped else []
        removed = 0
        for found in pattern.finditer(part):
            at = found.start() - removed
            self._at.append(at)
            removed += found.end() - found.start()
            self._pushed.append(removed)
            if part[found.end() - 1] == "\n":
                self._lines.append(at)

    def before(self, position: int) -> int:
        """The position in the part of a character of the joined text."""
        index = bisect.bisect_right(self._at, position)
        return position + (self._pushed[index - 1] if index else 0)

    def begin(self, start: int) -> int:
        """From where a hit that starts here is hidden: after a line break within its first characters."""
        index = bisect.bisect_right(self._lines, start + SKIPPED)
        return max(start, self._lines[index - 1]) if index else start


def _without_breaks(text: str) -> str:
    return text.replace("\r\n", "").replace("\n", "") if "\n" in text else text


def _open_mark(part: str) -> int:
    start = part.rfind(MARK[0])
    return start if start >= 0 and MARK.startswith(part[start:]) else len(part)
