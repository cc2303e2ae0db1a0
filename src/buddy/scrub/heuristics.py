"""Layers 1 to 3 combined: text that nobody registered but that looks like a secret.

Invariants:
- a hit lies within one word, within a name and its value on one line, or within the armour of a private key, so a text
  may be cut where `safe_cut` says and its parts masked separately, with the same result;
- a word of more than `LONGEST_WORD` characters is cut into such parts, at a delimiter if it has one; leading characters
  of scripts without blanks do not count;
- where layers overlap, the mark of the earlier layer wins.
"""

import bisect
import re
from collections.abc import Iterator

from buddy.scrub import entropy, key_value, token_formats
from buddy.scrub.formats import RUN
from buddy.scrub.key_names import ENDING
from buddy.scrub.lazy import LazyPattern
from buddy.scrub.marks import ENTROPY_MARK, MARK, OPENING, Span, merge_spans

LONGEST_WORD = 8 * 1024
LONGEST_ID = 40
_OWN = frozenset({"sess", "run", "msg", "asst", "appr", "req", "call"})

Hit = tuple[int, int, str]  # start, end, and the mark that replaces it

_SIGNS = LazyPattern(rf"{ENDING}|:(?=//)|-(?=u|-user|----)")
_LONG_RUN = LazyPattern(rf"[{RUN}]{{16}}")
# Scripts without blanks between words; neither digits nor any character that secrets consist of.
WIDE = (
    r"\u0e01-\u0e4f\u0e81-\u0ecf\u1780-\u17d9\u2e80-\u2fff\u3001-\u9fff\uac00-\ud7a3\uf900-\ufaff"
    r"\ufe30-\ufe4f\uff01-\uff0f\uff1a-\uffef\U00020000-\U0003ffff"
)
FIRST_WIDE = "\u0e01"
_WIDE_START = LazyPattern(rf"[{WIDE}]+")
_LONG_WORD = LazyPattern(rf"[^\s{WIDE}]\S{{{LONGEST_WORD - 1}}}")
_DELIMITER = LazyPattern(r".*[,;{}\[\]()&<>]", re.DOTALL)


def mask(text: str, *, random: bool = True) -> str:
    """Hide what looks like a secret; with `random` false, not because of its randomness alone."""
    if not is_suspicious(text):
        return text
    return "".join(mask_piece(piece, random=random) for piece in _pieces(text))


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


def safe_cut(text: str, cut: int) -> int:
    """The last position at or before `cut` (itself after a blank) where what follows can't change the masking."""
    while cut:
        part = text[:cut]
        held = min(key_value.open_at(part, text[cut : cut + 1]), token_formats.open_armour(part))
        if held == cut:
            break
        # The preceding word may itself be the value of a name before it: look again.
        cut = _word_start(text, held)
    return cut


def is_wide(character: str) -> bool:
    return _WIDE_START.match(character) is not None


def wide_start(word: str) -> int:
    """How much of the start of a word no hit can include, whatever follows; one may look at the character before it."""
    start = _WIDE_START.match(word)
    return start.end() - 1 if start else 0


def forced_cut(text: str, at: int) -> int:
    """Where the first word after `at` that is too long must be cut; 0 if there is none."""
    long_word = _LONG_WORD.search(text, at)
    if long_word is None:
        return 0
    delimiter = _DELIMITER.match(text, long_word.start() + LONGEST_WORD // 2, long_word.end())
    return delimiter.end() if delimiter else long_word.end()


def _pieces(text: str) -> Iterator[str]:
    if len(text) < LONGEST_WORD or max(map(len, text.split("\n"))) < LONGEST_WORD:
        yield text
        return
    done = 0
    while cut := forced_cut(text, done):
        yield text[done:cut]
        done = cut
    yield text[done:]


def mask_piece(text: str, *, random: bool = True) -> str:
    """Mask a text without overlong words; lines that contain a mark afterwards are examined again."""
    hits = _hits(text, random=random)
    if not hits:
        return text
    lines = _replace(text, hits).split("\n")
    return "\n".join(_mask_again(line, random=random) if OPENING in line else line for line in lines)


def _mask_again(line: str, *, random: bool) -> str:
    while hits := _hits(line, random=random):
        line = _replace(line, hits)
    return line


def _hits(text: str, *, random: bool) -> list[Hit]:
    runs = token_formats.runs(text)
    certain = merge_spans([*token_formats.spans(text, runs), *key_value.spans(text)])
    guessed = list(entropy.spans(text, runs)) if random else []
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


def _word_start(text: str, at: int) -> int:
    while at and not text[at - 1].isspace():
        at -= 1
    return at
