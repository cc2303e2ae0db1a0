"""Ids: a prefix that says what it names, and a ULID that sorts by the time it was made."""

import os
import re
import time
from collections.abc import Callable
from typing import Protocol

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

ID = re.compile(r"(?:req|sess|run|msg|appr|att)_[A-Za-z0-9._:-]{1,120}")


class Ids(Protocol):
    """Where new ids come from; passed in, so that a run can be repeated."""

    def __call__(self, prefix: str) -> str: ...


class Ulids:
    """Ids that are unique across processes and grow within this one."""

    def __init__(self, now: Callable[[], float] = time.time, entropy: Callable[[int], bytes] = os.urandom) -> None:
        self._now = now
        self._entropy = entropy
        self._last = 0

    def __call__(self, prefix: str) -> str:
        value = int(self._now() * 1000) << 80 | int.from_bytes(self._entropy(10), "big")
        if value <= self._last:
            value = self._last + 1
        self._last = value
        return f"{prefix}_{encode_ulid(value)}"


class CountingIds:
    """Ids 1, 2, 3… for tests and replays that compare whole event lists."""

    def __init__(self) -> None:
        self._next = 0

    def __call__(self, prefix: str) -> str:
        self._next += 1
        return f"{prefix}_{encode_ulid(self._next)}"


def encode_ulid(value: int) -> str:
    """Spell a 128-bit number in Crockford's base 32, 26 characters."""
    return "".join(_ALPHABET[value >> shift & 31] for shift in range(125, -1, -5))


def is_id(text: str, prefix: str) -> bool:
    """Tell whether this could be one of our ids; anything else is not looked up anywhere."""
    return text.startswith(prefix + "_") and ID.fullmatch(text) is not None
