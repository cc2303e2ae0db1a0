"""Layer 1: tokens that are recognised by their format, and private keys in their armour.

Invariants: only words with a long run of token characters are examined closely; a private key is hidden from its first
armour line to its last, over at most `ARMOUR_LIMIT` characters.
"""

import bisect
from collections.abc import Iterator, Sequence

from buddy.scrub import token_scanner
from buddy.scrub.formats import GATED, RUN, START
from buddy.scrub.lazy import LazyPattern
from buddy.scrub.marks import Span

ARMOUR_LIMIT = 16 * 1024

# Skipping everything short within one match keeps this cheap; matching the end keeps it linear.
_RUNS = LazyPattern(rf"(?:[^{RUN}]++|[{RUN}]{{1,15}}+(?![{RUN}]))*+(?:([{RUN}]{{16,}}+)|\Z)")

_GATED = [(sign, LazyPattern(f"{START}(?:{shape})")) for sign, shape in GATED.values()]

_BEGIN = r"-----BEGIN[ A-Z0-9]{0,40}PRIVATE KEY(?: BLOCK)?-----"
_END = r"-----END[ A-Z0-9]{0,40}PRIVATE KEY(?: BLOCK)?-----"
_BETWEEN = r"(?:\s|\\[nrt]|[\"'|>,;#*\\])"
_LONG = r"[A-Za-z0-9+/=]{16,}+(?!:|-(?!----))"  # not the name of a header
_SHORT = r"[A-Za-z0-9+/=]{1,15}+"
_HEADER = r"[A-Z][A-Za-z-]{2,30}: [^\n\\]{0,100}+(?=\n|\\n)"
_ARMOUR = LazyPattern(
    rf"{_BEGIN}(?:(?:{_BETWEEN}|{_HEADER})*+{_LONG})++(?:{_BETWEEN}*+{_SHORT}(?={_BETWEEN}*+{_END}))?(?:{_BETWEEN}*+{_END})?"
)
_OPEN_ARMOUR = LazyPattern(
    rf"-----BEGIN(?:[ A-Z0-9]*|{_BEGIN[10:]}(?:{_LONG}|{_HEADER}|{_BETWEEN})*+(?:[A-Z][A-Za-z-]{{2,30}}:[^\n]{{0,100}}"
    rf"|{_SHORT}{_BETWEEN}*+)?(?:-----END[ A-Z0-9]*)?)\Z"
)
_HASH = LazyPattern("[0-9A-F]+|[0-9a-f]+")
_DASHES = "-----BEGIN"


def runs(text: str) -> list[Span]:
    """The positions of long words of token characters."""
    return [run.span(1) for run in _RUNS.finditer(text) if run[1]]


def spans(text: str, long_runs: Sequence[Span]) -> Iterator[Span]:
    yield from _armour_spans(text)
    yield from (span for span in token_scanner.spans(text) if not _HASH.fullmatch(text, *span))
    for sign, shape in _GATED if long_runs else ():
        for start, end in _runs_containing(sign, text, long_runs):
            yield from (token.span() for token in shape.finditer(text, start, end))


def open_armour(text: str) -> int:
    """The position from which the end of this text could be inside a private key; its length if it can't."""
    at = text.rfind(_DASHES)
    is_open = at >= 0 and len(text) - at < ARMOUR_LIMIT and _OPEN_ARMOUR.match(text, at) is not None
    return at if is_open else len(text)


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
    at = text.find(_DASHES)
    while at >= 0:
        block = _ARMOUR.match(text, at, at + ARMOUR_LIMIT)
        if block:
            yield block.span()
        at = text.find(_DASHES, block.end() if block else at + len(_DASHES))
