"""The titles of sessions: made from the first message, or given by a person.

Invariants: a title is one line of at most `MAX_TITLE` characters, none of which could act on a screen or hide there.
"""

import re

from buddy.characters import UNSAFE, describe
from buddy.errors import ProtocolError

MAX_TITLE = 120
MADE_LENGTH = 60
"""The length of a title that is made from a message."""


def title_of(message: str) -> str:
    """A title made from a message: its first line, cut at a word; empty if nothing can be shown of it."""
    for line in message[: 16 * 1024].splitlines():
        title = " ".join(_unsafe().sub(" ", line).split())
        if title:
            return cut_at_word(title, MADE_LENGTH)
    return ""


def cut_at_word(text: str, length: int) -> str:
    """A line of at most this length, with `…` where something is missing."""
    if len(text) <= length:
        return text
    head = text[: length - 1]
    whole, _, _ = head.rpartition(" ")
    kept = head if text[length - 1] == " " or len(whole) < length // 2 else whole
    return f"{kept.rstrip()}…"


def check_title(title: str) -> str:
    """A title that a person gave, without the space around it; ProtocolError if it cannot be one."""
    title = title.strip()
    if not title:
        raise ProtocolError("INVALID_REQUEST", "the title is empty")
    if len(title) > MAX_TITLE:
        message = f"the title has {len(title)} characters; {MAX_TITLE} are allowed"
        raise ProtocolError("INVALID_REQUEST", message)
    if found := _unsafe().search(title):
        raise ProtocolError("INVALID_REQUEST", f"the title contains {describe(found[0])}; use one line of plain text")
    return title


def _unsafe() -> re.Pattern[str]:
    return re.compile(f"[\t\n{UNSAFE}]")  # kept by `re`; compiled by the first that needs it
