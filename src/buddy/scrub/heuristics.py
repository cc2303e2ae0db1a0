"""Layers 1 to 3 combined: text that nobody registered but that looks like a secret.

Invariants:
- a hit lies within one word, within a name and its value on one line, or within the armour of a private key, so a text
  may be cut where `SafeCuts` says and its parts masked separately, with the same result;
- words and lines that are too long are cut into such parts (see `pieces.py`);
- where layers overlap, the mark of the earlier layer wins;
- the work is linear in the text: a part is examined at most `PASSES` times.
"""

import bisect
from itertools import chain

from buddy.scrub import entropy, key_value, token_formats
from buddy.scrub.formats import RUN
from buddy.scrub.key_names import ENDING
from buddy.scrub.lazy import LazyPattern
from buddy.scrub.marks import ENTROPY_MARK, MARK, OPENING, Span, merge_spans
from buddy.scrub.pieces import split
from buddy.steps import Steps, at_once

PASSES = 8
LONGEST_ID = 40
_AT_ONCE = 16
_OWN = frozenset({"sess", "run", "msg", "asst", "appr", "req", "call"})

Hit = tuple[int, int, str]  # start, end, and the mark that replaces it

_SIGNS = LazyPattern(rf"{ENDING}|:(?=//)|-(?=u|-user|----)")
_LONG_RUN = LazyPattern(rf"[{RUN}]{{16}}")


def mask(text: str, *, random: bool = True) -> str:
    """Hide what looks like a secret; with `random` false, not because of its randomness alone."""
    return at_once(_mask(text, random=random)) if is_suspicious(text) else text


def _mask(text: str, *, random: bool) -> Steps[str]:
    masked: list[str] = []
    for piece in (yield from split(text)):
        hidden = yield from mask_piece(piece, random=random)
        masked.append(hidden)
    return "".join(masked)


def is_suspicious(text: str) -> bool:
    """Whether a text can contain a hit or the start of one: a cheap check before the expensive one."""
    if len(text) < LONGEST_ID and _is_own_id(text):
        return False
    return _SIGNS.search(text) is not None or (len(text) >= 16 and _LONG_RUN.search(text) is not None)


def _is_own_id(text: str) -> bool:
    """Whether this is one of Buddy's ids (but not a token): every event has some, and they are long words."""
    prefix, _, rest = text.partition("_")
    ulid, point, turn = rest.partition(".")  # the id of a model message consists of its run and its turn
    is_ulid = len(ulid) == 26 and ulid.isascii() and ulid.isalnum() and ulid.isupper()
    return prefix in _OWN and is_ulid and (not point or (turn.isascii() and turn.isdecimal()))


def mask_piece(text: str, *, random: bool = True) -> Steps[str]:
    """Mask a text without overlong words; lines that contain a mark afterwards are examined again."""
    hits = yield from _hits(text, random=random)
    if not hits:
        return text
    lines = _replace(text, hits).split("\n")
    for number, line in enumerate(lines):
        if OPENING in line:
            lines[number] = yield from _mask_again(line, random=random)
    return "\n".join(lines)


def _mask_again(line: str, *, random: bool) -> Steps[str]:
    """A mark ends a word, so that another one may show; ordinary text needs one more pass."""
    for _ in range(PASSES - 1):
        hits = yield from _hits(line, random=random)
        if not hits:
            break
        line = _replace(line, hits)
    return line


def _hits(text: str, *, random: bool) -> Steps[list[Hit]]:
    runs = token_formats.runs(text)
    found: list[Span] = []
    for number, span in enumerate(chain(token_formats.spans(text, runs), key_value.spans(text))):
        if span is not None:
            found.append(span)
        if number % _AT_ONCE == 0:
            yield
    certain = merge_spans(found)
    guessed = list(entropy.spans(text, runs)) if random else []
    yield
    hits = [(start, end, MARK) for start, end in certain]
    return hits + [(start, end, ENTROPY_MARK) for start, end in guessed if not _overlaps((start, end), certain)]


def _replace(text: str, hits: list[Hit]) -> str:
    pieces: list[str] = []
    done = 0
    for start, end, mark in sorted(hits):
        pieces += (text[done:start], mark)
        done = end
    return "".join([*pieces, text[done:]])


def _overlaps(span: Span, others: list[Span]) -> bool:
    at = bisect.bisect_left(others, span[0], key=lambda other: other[1])
    return at < len(others) and others[at][0] < span[1] and span[0] < others[at][1]
