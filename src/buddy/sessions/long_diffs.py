"""Diffs that are too long for a reply: kept for a while, read in parts like a blob of the session's log.

Invariants: memory is bounded, the oldest diffs go first; a diff is read only through the session it was made for.
"""

from collections import OrderedDict
from hashlib import sha256

MAX_KEPT = 64 * 1024 * 1024


class LongDiffs:
    def __init__(self, most: int = MAX_KEPT) -> None:
        self._most = most
        self._size = 0
        self._kept: OrderedDict[tuple[str, str], bytes] = OrderedDict()

    def put(self, session_id: str, text: str) -> str:
        """Keep a diff, and return the name of its blob."""
        data = text.encode("utf-8", "replace")
        key = session_id, sha256(data).hexdigest()
        self._size += len(data) - len(self._kept.pop(key, b""))
        self._kept[key] = data
        while self._size > self._most and len(self._kept) > 1:
            _, dropped = self._kept.popitem(last=False)
            self._size -= len(dropped)
        return key[1]

    def read(self, session_id: str, blob: str, offset: int, limit: int) -> tuple[bytes, int] | None:
        """A part, and the total size; None if it is not kept."""
        data = self._kept.get((session_id, blob))
        return None if data is None else (data[offset : offset + limit], len(data))
