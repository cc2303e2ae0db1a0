"""Layer 1: tokens that are recognised by their format, and private keys in their armour.

Invariants: only words with a long run of token characters are examined closely; a private key is hidden from its first
armour line to its last, over at most `ARMOUR_LIMIT` characters.
"""

import bisect
from collections.abc import Iterator, Sequence

from buddy.scrub import token_scanner
from buddy.scrub.formats import GATED, RUN, START
from buddy.scrub.lazy import LazyPattern
from buddy.scrub.marks import OPENING, Span

ARMOUR_LIMIT = 16 * 1024
DASHES = "-----BEGIN"

# Skipping everything short within one match keeps this cheap; matching the end keeps it linear.
_RUNS = LazyPattern(rf"(?:[^{RUN}]++|[{RUN}]{{1,15}}+(?![{RUN}]))*+(?:([{RUN}]{{16,}}+)|\Z)")

_GATED = [(sign, LazyPattern(f"{START}(?:{shape})")) for sign, shape in GATED.values()]

_BEGIN = r"-----BEGIN[ A-Z0-9]{0,40}PRIVATE KEY(?: BLOCK)?-----"
_END = r"-----END[ A-Z0-9]{0,40}PRIVATE KEY(?: BLOCK)?-----"
_BETWEEN = r"(?:\s|\\[nrt]|[\"'|>,;#*\\])"
_LONG = r"[A-Za-z0-9+/=]{16,}+(?!:|-(?!----))"  # not the name of a header
_SHORT = r"[A-Za-z0-9+/=]{1,15}+"
_HEADER = r"[A-Z][A-Za-z-]{2,30}: [^\n\\]{0,100}+(?=\n|\\n)"
_MOST_HEADERS = 8
_MOST_BLANKS = 64
_ARMOUR = LazyPattern(
    rf"{_BEGIN}(?:{_BETWEEN}*+(?:{_HEADER}{_BETWEEN}*+){{0,{_MOST_HEADERS}}}+{_LONG})++"
    rf"(?:{_BETWEEN}*+{_SHORT}(?={_BETWEEN}{{0,{_MOST_BLANKS}}}+{_END}))?(?:{_BETWEEN}*+{_END})?"
)
_OPEN_BEGIN = LazyPattern(r"-----BEGIN[ A-Z0-9]{0,60}\Z")
_BEGIN_LINE = LazyPattern(_BEGIN)
_BODY = LazyPattern(rf"({_LONG}|{_HEADER}|{_BETWEEN})*+")
_OPEN_END = LazyPattern(
    rf"(?:[A-Z][A-Za-z-]{{2,30}}:[^\n]{{0,100}}|{_SHORT}{_BETWEEN}{{0,{_MOST_BLANKS}}}+)?"
    r"(?:-----END[ A-Z0-9]{0,60})?\Z"
)
_HASH = LazyPattern("[0-9A-F]+|[0-9a-f]+")


def runs(text: str) -> list[Span]:
    """The positions of long words of token characters."""
    return [run.span(1) for run in _RUNS.finditer(text) if run[1]]


def spans(text: str, long_runs: Sequence[Span]) -> Iterator[Span]:
    yield from _armour_spans(text)
    yield from (span for span in token_scanner.spans(text) if _is_token(text, *span))
    for sign, shape in _GATED if long_runs else ():
        for start, end in _runs_containing(sign, text, long_runs):
            yield from (token.span() for token in shape.finditer(text, start, end))


class OpenArmour:
    """Whether the end of a growing text is inside a private key; each of its lines is read once."""

    def __init__(self) -> None:
        self._begin = -1
        self._read = 0

    def clear(self) -> None:
        self._begin = -1

    def find(self, text: str, end: int, start: int = 0) -> int:
        """The position from which the text up to `end` could be inside a private key; `end` if it can't."""
        begin = text.rfind(DASHES, max(start, end - ARMOUR_LIMIT), end)
        is_open = begin >= 0 and end - begin < ARMOUR_LIMIT and self._is_open(text, begin, end)
        return begin if is_open else end

    def _is_open(self, text: str, begin: int, end: int) -> bool:
        if begin != self._begin or self._read > end:
            line = _BEGIN_LINE.match(text, begin, end)
            if line is None:
                return _OPEN_BEGIN.match(text, begin, end) is not None
            self._begin, self._read = begin, line.end()
        body = _BODY.match(text, self._read, end)
        read = body.end() if body else self._read
        is_open = _OPEN_END.match(text, read, end) is not None
        # What reaches to the end may go on.
        self._read = body.start(1) if body and body[1] and read == end else read
        return is_open


def _is_token(text: str, start: int, end: int) -> bool:
    # A mark is part of the word before it, too: otherwise each mark could make a token of what precedes it.
    return not _HASH.fullmatch(text, start, end) and not text.startswith(OPENING, end)


def _runs_containing(sign: str, text: str, long_runs: Sequence[Span]) -> Iterator[Span]:
    """The runs that contain this text."""
    at = text.find(sign)
    while at >= 0:
        index = bisect.bisect_right(long_runs, at, key=lambda run: run[0]) - 1
        end = at + 1
        if index >= 0 and at < long_runs[index][1]:
            yield long_runs[index]
            end = long_runs[index][1]
        at = text.find(sign, end)


def _armour_spans(text: str) -> Iterator[Span]:
    at = text.find(DASHES)
    while at >= 0:
        block = _ARMOUR.match(text, at, at + ARMOUR_LIMIT)
        if block:
            yield block.span()
        at = text.find(DASHES, block.end() if block else at + len(DASHES))
