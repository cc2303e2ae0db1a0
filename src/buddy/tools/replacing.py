"""Replaces every occurrence of a text in a long one, in steps.

Invariant: the result is that of `bytes.replace`, and is never longer than asked for.
"""

from typing import NamedTuple

from buddy.steps import PART, Steps


class Replaced(NamedTuple):
    content: bytes
    places: int


class TooLong(Exception):
    """The result would be longer than allowed."""


def replace_in(content: bytes, old: bytes, new: bytes, limit: int) -> Steps[Replaced]:
    """Replace `old` everywhere; TooLong if more than `limit` bytes would result."""
    pieces: list[bytes] = []
    at = count = size = 0
    window = max(PART, 2 * len(old))
    while at < len(content):
        end = at + window
        *before, rest = content[at:end].split(old)
        # The last bytes may be the beginning of an occurrence that reaches into the next window.
        held = min(len(rest), len(old) - 1) if end < len(content) else 0
        size += sum(map(len, before)) + len(before) * len(new) + len(rest) - held
        if size > limit:
            raise TooLong
        pieces.append(new.join([*before, rest[: len(rest) - held]]))
        count += len(before)
        at = min(end, len(content)) - held
        yield
    return Replaced(b"".join(pieces), count)
