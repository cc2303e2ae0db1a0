"""Layer 3: text that looks random and has no name before it.

Invariants: a hit has 24 to 512 characters, lower and upper case letters and digits in a mix that words and identifiers
do not have, and at least four bits per character; hashes, UUIDs, ids, paths, addresses, public keys, checksums and the
lines of a base64 block are never hits.
"""

import math
import re
from collections.abc import Iterable, Iterator

from buddy.scrub.lazy import LazyPattern
from buddy.scrub.marks import NOT_AFTER_MARK, Span

SHORTEST, LONGEST = 24, 512
BITS = 4.0
HEX_BITS = 3.6  # sixteen digits in mixed case; no tool prints hashes like that

_TOKEN = LazyPattern(rf"(?<![A-Za-z0-9+/_-]){NOT_AFTER_MARK}[A-Za-z0-9+/_-]{{{SHORTEST},}}+={{0,2}}")
_HEX = LazyPattern(r"[0-9a-f-]+|[0-9A-F-]+")
_TWO_CASE_HEX = LazyPattern(r"[0-9a-fA-F]{32,}")
_MIXED = LazyPattern(r"(?=[^a-z]*[a-z])(?=[^A-Z]*[A-Z])(?=[^0-9]*[0-9])")
_CHANGE = LazyPattern(r"[a-z](?=[A-Z0-9+/])|[A-Z](?=[a-z0-9+/])|[0-9](?=[A-Za-z+/])|[+/](?=[A-Za-z0-9])")
_WORDS = LazyPattern(r"[A-Za-z]?[a-z]{3,}")
_PREFIX = LazyPattern(r"(?:[a-z]{2,12}[_-]){1,2}")
_PUBLIC = LazyPattern(r"(?:AAAA[BCE][23]|sha\d{1,3}-|MII[A-K])")
_SUM = LazyPattern(r"(?:sha\d{1,3}|md5|h1|base64|integrity|etag|nonce)[^\sA-Za-z0-9]{1,4}\Z", re.IGNORECASE)
_BLANK = LazyPattern(r"[\s\"'<>]")
_LOOKBACK = 300
_BLOCK_LINES = {60, 64, 70, 72, 76}


def spans(text: str, long_runs: Iterable[Span]) -> Iterator[Span]:
    for start, end in long_runs:
        if end - start >= SHORTEST and _MIXED.match(text, start, end):
            for token in _TOKEN.finditer(text, start, end):
                at = _behind_escape(text, token.start())
                if not _SUM.search(text, max(0, at - 14), at) and _is_secret(text, at, token.end()):
                    yield at, token.end()


def bits(text: str) -> float:
    """Shannon entropy per character."""
    counts = [text.count(character) for character in set(text)]
    return -sum(count / len(text) * math.log2(count / len(text)) for count in counts)


def _behind_escape(text: str, start: int) -> int:
    """A preceding backslash owns the first characters: JSON must stay valid."""
    if start == 0 or text[start - 1] != "\\":
        return start
    return start + (5 if text[start] == "u" else 1)


def _looks_random(token: str) -> bool:
    if not SHORTEST <= len(token) <= LONGEST or _HEX.fullmatch(token) or _PUBLIC.match(token):
        return False
    prefix = _PREFIX.match(token)
    body = token[prefix.end() :] if prefix else token
    if prefix and len(body) < 40:
        return False  # an id: `call_…`, `toolu_…`, `sess_…`; keys with such a prefix are known formats
    fewest = HEX_BITS if _TWO_CASE_HEX.fullmatch(body) else BITS
    return bool(_MIXED.match(body)) and _is_jumpy(body) and bits(body) >= fewest and not _is_path(body)


def _is_jumpy(token: str) -> bool:
    """Random letters change their kind at more than half of the positions, camelCase at most at a third."""
    letters = token.replace("_", "").replace("-", "")
    return len(_CHANGE.findall(letters)) >= 0.42 * len(letters)


def _is_path(token: str) -> bool:
    parts = re.split(r"[/_-]", token)
    return len(parts) > 2 + len(token) // 8 or any(_WORDS.fullmatch(part) for part in parts)


def _is_secret(text: str, start: int, end: int) -> bool:
    return _looks_random(text[start:end]) and not _is_block_line(text, start, end) and not _is_address(text, start)


def _is_address(text: str, start: int) -> bool:
    scheme = text.rfind("://", max(0, start - _LOOKBACK), start)
    return scheme >= 0 and not _BLANK.search(text, scheme, start)


def _is_block_line(text: str, start: int, end: int) -> bool:
    # A line of a certificate or of an attachment: nothing but base64, of a usual width.
    alone = (start == 0 or text[start - 1].isspace()) and (end == len(text) or text[end].isspace())
    return alone and end - start in _BLOCK_LINES
