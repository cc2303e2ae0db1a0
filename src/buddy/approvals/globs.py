"""Globs of rules, over words and paths: `*` and `?` stay within a name, `**` crosses directories, `[*]` is a star.

Invariants: matching takes time linear in the text, whatever the pattern; in the host of an address a wildcard stands
for letters, digits, dots, dashes and underscores alone, so it reaches neither another host nor the path.
"""

import re
from collections.abc import Callable
from functools import lru_cache

from msgspec import Struct

MAX_LENGTH = 4096
_TOKEN = re.compile(r"\[([*?\[])\]|(\[!?\]?[^\]]*\])|(\*\*/)|(\*\*+)|(\*)|(\?)|(.)", re.DOTALL)
# A wildcard in brackets stands for itself.
_ESCAPED = re.compile(r"\[[*?\[]\]")
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")

Test = Callable[[str], bool]


class _Part(Struct, frozen=True):
    """What one character must be like; a repeated part matches any number of them, none included."""

    test: Test
    repeated: bool = False
    # `**/`: any number of directories, so it ends where a name begins.
    ends_with_slash: bool = False


def is_wild(word: str) -> bool:
    return re.search(r"[*?\[]", _ESCAPED.sub("", word)) is not None


def literal_glob(word: str) -> str:
    """The pattern that matches exactly this."""
    return re.sub(r"([*?\[])", r"[\1]", word)


def literal_text(pattern: str) -> str:
    """What a pattern without wildcards matches."""
    return _ESCAPED.sub(lambda found: found[0][1], pattern)


def glob_matches(pattern: str, text: str) -> bool:
    """Whether the entire text is matched. Texts longer than any path are not, except by themselves."""
    if not is_wild(pattern):
        return literal_text(pattern) == text
    if len(text) > MAX_LENGTH or not text.startswith(_head(pattern)) or not text.endswith(_tail(pattern)):
        return False
    parts = _parts(pattern)
    at = _reach(parts, {0: True})
    for character in text:
        at = _reach(parts, _step(parts, at, character))
        if not at:
            return False
    return len(parts) in at


def _step(parts: tuple[_Part, ...], at: dict[int, bool], character: str) -> dict[int, bool]:
    """The positions after one more character, and whether each may go on from there."""
    ahead: dict[int, bool] = {}
    for place in at:
        if place == len(parts) or not parts[place].test(character):
            continue
        part = parts[place]
        if not part.repeated:
            ahead[place + 1] = True
        else:
            may_leave = not part.ends_with_slash or character == "/"
            ahead[place] = ahead.get(place, False) or may_leave
    return ahead


def _reach(parts: tuple[_Part, ...], at: dict[int, bool]) -> dict[int, bool]:
    """A repeated part may also match nothing more."""
    for place in range(len(parts)):
        if at.get(place) and parts[place].repeated:
            at[place + 1] = True
    return at


@lru_cache(1024)
def _parts(pattern: str) -> tuple[_Part, ...]:
    address = _ADDRESS.match(pattern)
    host = (address.end(), (pattern + "/").index("/", address.end())) if address else (0, 0)
    parts: list[_Part] = []
    for found in _TOKEN.finditer(pattern):
        stays = _in_host if host[0] <= found.start() < host[1] else _in_name
        escaped, choice, directories, anything, star, one, plain = found.groups()
        if directories and stays is _in_name:
            parts.append(_Part(_any, repeated=True, ends_with_slash=True))
        elif directories or anything or star:
            parts.append(_Part(_any if (anything and stays is _in_name) else stays, repeated=True))
            if directories:
                parts.append(_Part("/".__eq__))
        elif choice:
            parts.append(_Part(_one_of(choice, stays)))
        else:
            parts.append(_Part(stays if one else (escaped or plain).__eq__))
    return tuple(parts)


@lru_cache(1024)
def _head(pattern: str) -> str:
    """The plain text before the first wildcard: most texts are not matched because of it."""
    return re.split(r"[*?\[]", pattern, maxsplit=1)[0]


@lru_cache(1024)
def _tail(pattern: str) -> str:
    return re.split(r"\*\*/|[*?\]]", pattern)[-1]


def _any(_character: str) -> bool:
    return True


def _in_name(character: str) -> bool:
    return character != "/"


def _in_host(character: str) -> bool:
    return character.isascii() and (character.isalnum() or character in "._-")


def _one_of(choice: str, stays: Test) -> Test:
    """`[abc]`, `[a-z]` and `[!abc]`."""
    inverted = choice[1] == "!" and len(choice) > 3
    body = choice[2:-1] if inverted else choice[1:-1]
    ranges = re.findall(r"(.)-(.)|(.)", body, re.DOTALL)
    spans = [(low, high) if low else (one, one) for low, high, one in ranges]
    return lambda character: stays(character) and inverted != any(low <= character <= high for low, high in spans)
