"""A cache of encoded items: each item of a history becomes bytes once, however often it is sent.

Invariants: the bytes returned belong to exactly the requested items. An item is recognised by identity, so a history
that was compacted, forked or rebuilt is encoded again from the first item that differs. Long items are encoded in
steps, and kept once all are.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from operator import is_, is_not, itemgetter
from typing import Generic, TypeVar

from msgspec import Struct

from buddy.long_json import LONG
from buddy.models.calls import call_ids
from buddy.models.contract import AssistantItem, Item
from buddy.steps import Steps

_HISTORIES = 16
_JOINED = 1024 * 1024

Value = TypeVar("Value")


class EncodedItems:
    """The bytes of a few histories, the least recently used dropped first."""

    def __init__(self, encode: Callable[[Item], Steps[bytes]]) -> None:
        self._encode = encode
        self._histories: OrderedDict[int, _History] = OrderedDict()

    def of(self, items: Sequence[Item]) -> Steps[list[bytes]]:
        """One piece of bytes per item; the list is the cache itself and must not be changed."""
        return (yield from self._history(items)).encoded if items else []

    def call_ids(self, items: Sequence[Item]) -> AbstractSet[str]:
        """The ids of the calls in a history."""
        if not items:
            return frozenset()
        history = self._histories.get(id(items[0]))
        if history is None or len(history.items) != len(items) or history.items[-1] is not items[-1]:
            return call_ids(items)
        return history.call_ids

    def forget(self) -> None:
        self._histories.clear()

    def _history(self, items: Sequence[Item]) -> "Steps[_History]":
        # The entry holds the first item, so no other object can have its id meanwhile.
        history = self._histories.get(id(items[0]))
        if history is None:
            history = self._histories[id(items[0])] = _History(
                [items[0]], [(yield from self._encode(items[0]))], call_ids(items[:1])
            )
            if len(self._histories) > _HISTORIES:
                self._histories.popitem(last=False)
        self._histories.move_to_end(id(items[0]))
        yield from history.follow(items, self._encode)
        return history


class _History(Struct):
    """One conversation, item by item."""

    items: list[Item]
    encoded: list[bytes]
    call_ids: set[str]
    followed: Sequence[Item] = ()
    """What it was last compared with; a history that was changed, rather than continued, is another object."""

    def follow(self, items: Sequence[Item], encode: Callable[[Item], Steps[bytes]]) -> Steps[None]:
        followed, self.followed = self.followed, ()
        is_continued = items is followed and len(items) >= len(self.items)
        keep = len(self.items) if is_continued else _count_shared(self.items, items)
        if keep < len(self.items):
            del self.items[keep:], self.encoded[keep:]
            self.call_ids = call_ids(self.items)
        for at in range(keep, len(items)):
            encoded = yield from encode(items[at])
            if len(self.items) != at or self.items[-1] is not items[at - 1]:  # another request did so meanwhile
                yield from self.follow(items, encode)
                return
            item = items[at]
            self.items.append(item)
            self.encoded.append(encoded)
            if isinstance(item, AssistantItem):
                self.call_ids.update([call.call_id for call in item.calls])
        self.followed = items


class EncodedValue(Generic[Value]):
    """The bytes of one value that is sent repeatedly, recognised by identity."""

    def __init__(self, encode: Callable[[Value], bytes]) -> None:
        self._encode = encode
        self._value: Value | None = None
        self._bytes = b""

    def of(self, value: Value) -> bytes:
        if value is not self._value:
            self._value, self._bytes = value, self._encode(value)
        return self._bytes


def _count_shared(known: Sequence[Item], items: Sequence[Item]) -> int:
    """The length of the common prefix. All items are compared, as one may have been replaced."""
    if len(known) <= len(items) and all(map(is_, known, items)):
        return len(known)
    differs = map(is_not, known, items)
    return next((at for at, _ in filter(_second, enumerate(differs))), min(len(known), len(items)))


_second = itemgetter(1)


def is_long(item: Item) -> bool:
    """Whether it takes a while to encode."""
    if not isinstance(item, AssistantItem):
        return len(item.text) > LONG
    size = len(item.text)
    for call in item.calls:
        size += len(call.arguments)
    return size > LONG or item.opaque is not None


def join_items(encoded: Sequence[bytes]) -> list[bytes]:
    """The items with commas between them; in one piece if that takes no time."""
    if sum(map(len, encoded)) <= _JOINED:
        return [b",".join(encoded)]
    return [piece for item in encoded for piece in (b",", item)][1:]


def join_pieces(pieces: list[bytes]) -> list[bytes]:
    """The same pieces; in one if that takes no time."""
    return [b"".join(pieces)] if sum(map(len, pieces)) <= _JOINED else pieces
