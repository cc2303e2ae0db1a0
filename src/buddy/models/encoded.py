"""What a wire already encoded, kept: each item of a history becomes bytes once, however often it is sent.

What always holds: the bytes given belong to exactly the items asked for. An item is recognised by identity, so a
history that was compacted, forked or rebuilt is encoded anew from the first item that differs.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from operator import is_not, itemgetter
from typing import Generic, TypeVar

from buddy.models.contract import Item

_HISTORIES = 16

Value = TypeVar("Value")


class EncodedItems:
    """The bytes of a few histories at a time, the least recently used forgotten first."""

    def __init__(self, encode: Callable[[Item], bytes]) -> None:
        self._encode = encode
        self._histories: OrderedDict[int, tuple[list[Item], list[bytes]]] = OrderedDict()

    def of(self, items: Sequence[Item]) -> list[bytes]:
        """One piece of bytes per item; the list is the cache itself and must not be changed."""
        if not items:
            return []
        known, encoded = self._history(items[0])
        keep = _shared(known, items)
        del known[keep:], encoded[keep:]
        for item in items[keep:]:
            encoded.append(self._encode(item))
            known.append(item)
        return encoded

    def forget(self) -> None:
        self._histories.clear()

    def _history(self, first: Item) -> tuple[list[Item], list[bytes]]:
        # The first item is held by the entry, so its id cannot be given to another object meanwhile.
        entry = self._histories.setdefault(id(first), ([first], [self._encode(first)]))
        self._histories.move_to_end(id(first))
        if len(self._histories) > _HISTORIES:
            self._histories.popitem(last=False)
        return entry


class Kept(Generic[Value]):
    """The bytes of the one value that is sent again and again, recognised by identity."""

    def __init__(self, encode: Callable[[Value], bytes]) -> None:
        self._encode = encode
        self._value: Value | None = None
        self._bytes = b""

    def of(self, value: Value) -> bytes:
        if value is not self._value:
            self._value, self._bytes = value, self._encode(value)
        return self._bytes


def _shared(known: Sequence[Item], items: Sequence[Item]) -> int:
    """How many items both begin with. All are compared, as one may have changed in place; that is 45 ns for each."""
    differs = map(is_not, known, items)
    return next((at for at, _ in filter(_second, enumerate(differs))), min(len(known), len(items)))


_second = itemgetter(1)
