"""Cuts words, lines and rows of private keys that are too long, so that what is held back or looked at is bounded.

Invariants:
- the places depend on the complete text alone, not on how it was split into chunks;
- a word of more than `LONGEST_WORD` characters is cut after its last delimiter in the second half, or else at the
  limit; leading characters of scripts without blanks do not count;
- a line of more than `LONGEST_LINE` characters is cut in its second half: at the last safe place before its last blank,
  or else after that blank;
- an armour line that begins a private key starts a text of its own if `FAR` characters or more lie between it and the
  first such line: none of them would ever be a safe place to cut if each could belong to the key before it.
"""

import re
from collections.abc import Iterator

from buddy.scrub.lazy import LazyPattern
from buddy.scrub.safe_cuts import SafeCuts
from buddy.scrub.token_formats import ARMOUR_LIMIT, DASHES
from buddy.steps import Steps

FAR = ARMOUR_LIMIT
LONGEST_WORD = 8 * 1024
LONGEST_LINE = 32 * 1024
_HALF_LINE = LONGEST_LINE // 2

# Scripts without blanks between words; neither digits nor any character that secrets consist of.
WIDE = (
    r"\u0e01-\u0e4f\u0e81-\u0ecf\u1780-\u17d9\u2e80-\u2fff\u3001-\u9fff\uac00-\ud7a3\uf900-\ufaff"
    r"\ufe30-\ufe4f\uff01-\uff0f\uff1a-\uffef\U00020000-\U0003ffff"
)
FIRST_WIDE = "\u0e01"
_WIDE_START = LazyPattern(rf"[{WIDE}]+")
# Everything short is skipped within one match, which keeps this linear.
_LONG_WORD = LazyPattern(
    rf"(?:\s++|[{WIDE}]++|[^\s{WIDE}]\S{{0,{LONGEST_WORD - 2}}}+(?!\S))*+([^\s{WIDE}]\S{{{LONGEST_WORD - 1}}})"
)
_DELIMITER = LazyPattern(r".*[,;{}\[\]()&<>]", re.DOTALL)


class ArmourRows:
    """Where armour lines start texts of their own, in a text that arrives in chunks."""

    def __init__(self) -> None:
        self._first: int | None = None  # how far before the next chunk the first armour line is

    def cuts(self, text: str) -> list[int]:
        """The places in the next chunk, which ends with a complete armour opening or none."""
        found: list[int] = []
        at = text.find(DASHES)
        while at >= 0:
            if self._first is None or at - self._first >= FAR:
                if self._first is not None:
                    found.append(at)
                self._first = at
            at = text.find(DASHES, at + len(DASHES))
        if self._first is not None:
            self._first -= len(text)
        return found


def split(text: str) -> Steps[list[str]]:
    """The pieces of a complete text."""
    pieces: list[str] = []
    done = 0
    for cut in ArmourRows().cuts(text) if len(text) > FAR else ():
        pieces += yield from _split(text[done:cut])
        done = cut
    pieces += yield from _split(text[done:] if done else text)
    return pieces


def _split(text: str) -> Steps[list[str]]:
    pieces: list[str] = []
    done = 0
    if len(text) >= LONGEST_WORD:
        for line, end in _long_lines(text):
            cut = yield from forced_cut(text, line, end)
            while cut is not None:
                pieces.append(text[done:cut])
                done = cut
                cut = yield from forced_cut(text, done, end)
    return [*pieces, text[done:]]


def forced_cut(text: str, line: int, end: int, blank: int = 0) -> Steps[int | None]:
    """Where a line that reaches from `line` to `end` must be cut first; None if it need not.

    If `line` is negative, the line began before this text, and `blank` says where its last blank was: the cut may be
    there.
    """
    limit = line + LONGEST_LINE
    word = _LONG_WORD.match(text, max(line, 0), min(end, limit))
    if word:
        start, stop = word.span(1)
        delimiter = _DELIMITER.match(text, start + LONGEST_WORD // 2, stop)
        return delimiter.end() if delimiter else stop
    return (yield from _cut_line(text, line, limit, blank)) if limit <= end else None


def is_wide(character: str) -> bool:
    return _WIDE_START.match(character) is not None


def wide_start(word: str) -> int:
    """How much of the start of a word no hit can include, whatever follows; one may look at the character before it."""
    start = _WIDE_START.match(word)
    return start.end() - 1 if start else 0


def _long_lines(text: str) -> Iterator[tuple[int, int]]:
    """The lines that may have to be cut."""
    start = 0
    while len(text) - start >= LONGEST_WORD:
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        if end - start >= LONGEST_WORD:
            yield start, end
        start = end + 1


def _cut_line(text: str, line: int, limit: int, blank: int) -> Steps[int]:
    half = line + _HALF_LINE
    last = next((at for at in range(limit, max(half, 0), -1) if text[at - 1].isspace()), blank)
    if last <= max(half, 0):
        if blank >= half and line < 0:
            return blank
        # Only a word that starts with wide characters is this long.
        return next((at for at in range(limit - 1, max(half, 0), -1) if is_wide(text[at])), limit)
    safe = yield from SafeCuts().find(text, last, max(line, 0))
    return safe if safe >= half else last
