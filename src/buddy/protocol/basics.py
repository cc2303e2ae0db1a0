"""What the simplest client needs from the protocol: its version, some limits, and ids. It imports nothing else."""

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

VERSION = "push.runtime.v1"
MAX_TEXT = 256 * 1024  # bytes of one user message
MAX_SECONDS = 1_000_000_000  # thirty years: a time that far ahead still fits every client's numbers
NO_EXPIRY = 2**53 - 1  # `expiresAt` of what does not expire: the largest whole number that every client can read

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


class Ulids:
    """Ids that are unique across processes and grow within this one."""

    def __init__(self, now: "Callable[[], float]" = time.time, entropy: "Callable[[int], bytes]" = os.urandom) -> None:
        self._now = now
        self._entropy = entropy
        self._last = 0

    def __call__(self, prefix: str) -> str:
        value = int(self._now() * 1000) << 80 | int.from_bytes(self._entropy(10), "big")
        if value <= self._last:
            value = self._last + 1
        self._last = value
        return f"{prefix}_{encode_ulid(value)}"


def encode_ulid(value: int) -> str:
    """Spell a 128-bit number in Crockford's base 32, 26 characters."""
    return "".join(_ALPHABET[value >> shift & 31] for shift in range(125, -1, -5))
