"""Assembles the output items of one Responses response from its events, in all the ways servers name them.

Invariants: every item is here once, in the order in which it was started. An event belongs, in this order, to
- the item at its index, if that has its id (of the item or of the call);
- the latest item with its id, unless that one is complete, or at another index when a new one starts: two calls with
  one id stay two;
- the item at its index, if that has its kind and may still grow (some servers change ids in between, or label every
  item index 0);
- the open item, if the event has no index;
- a new item.
"""

from typing import Literal

import msgspec

from buddy.models.response_events import Output

Kind = Literal["message", "function_call", "kept"]


class Item:
    """An item that may still grow. `start` and `end` are where a message's text is in the reply's text."""

    def __init__(self, kind: Kind) -> None:
        self.kind: Kind = kind
        self.item_id = ""
        self.call_id = ""
        self.name = ""
        self.arguments: list[str] = []
        self.text: list[str] = []
        self.start = self.end = -1
        self.phase = ""
        self.thought = False
        self.raw = ""
        self.index: int | None = None
        self.ids: set[str] = set()
        self.is_done = False
        self.is_listed = False

    def takes(self, kind: Kind, call_id: str) -> bool:
        """Whether an event of this kind, about this call, can be about this item."""
        return self.kind == kind and not self.is_done and not (call_id and self.call_id not in ("", call_id))

    def is_elsewhere(self, index: int | None) -> bool:
        return index is not None and self.index not in (None, index)

    def is_followed_by(self, output: Output) -> bool:
        """Whether an item that starts is another call than this one, which has started before."""
        return bool(self.name) and (self.name != output.name or bool(self.arguments))

    def differs(self, output: Output) -> bool:
        """Whether a complete output item is another call than this one, which is complete, too."""
        given = arguments_of(output)
        return self.kind == "function_call" and bool(given) and given != "".join(self.arguments)


def arguments_of(output: Output) -> str:
    """The arguments of a call as text; some servers send an object."""
    given = output.arguments or ""
    return given if isinstance(given, str) else msgspec.json.encode(given).decode()


class Outputs:
    """All items of a response."""

    def __init__(self) -> None:
        self.items: list[Item] = []
        self._by_id: dict[str, list[Item]] = {}
        self._by_index: dict[int, Item] = {}
        self._open: Item | None = None

    def add(self, kind: Kind, index: int | None, output: Output) -> Item:
        """Start an item, unless it is known."""
        ids = (output.id, output.call_id)
        known = self._find_named(index, *ids)
        if known is not None and (known.is_done or known.is_elsewhere(index) or known.is_followed_by(output)):
            known = None
        return self._add_ids(known or self._begin(kind, index), ids)

    def find(self, kind: Kind, index: int | None, item_id: str | None) -> Item:
        """The item that a delta belongs to."""
        if item := self._find_named(index, item_id):
            return item
        return self._add_ids(self._find_growing(kind, index, "") or self._begin(kind, index), (item_id,))

    def finish(self, kind: Kind, index: int | None, output: Output) -> Item:
        """The item for a complete output item; it does not grow any more."""
        ids = (output.id, output.call_id)
        known = self._find_named(index, *ids)
        if known is not None and known.is_done and (known.is_elsewhere(index) or known.differs(output)):
            known = None
        item = known or self._find_growing(kind, index, output.call_id or "") or self._begin(kind, index)
        item.is_done = True
        return self._add_ids(item, ids)

    def list_entry(self, kind: Kind, output: Output) -> Item:
        """The item for an entry of the final list: the one with its id, or the next of its kind not listed yet."""
        named = (item for name in (output.id, output.call_id) if name for item in self._by_id.get(name, ()))
        item = next((item for item in named if not item.is_listed), None)
        item = item or next((item for item in self.items if item.kind == kind and not item.is_listed), None)
        item = item or self._begin(kind, None)
        item.is_listed = True
        return self._add_ids(item, (output.id, output.call_id))

    def of(self, kind: Kind) -> list[Item]:
        return [item for item in self.items if item.kind == kind]

    def _find_named(self, index: int | None, *ids: str | None) -> Item | None:
        here = self._by_index.get(index) if index is not None else None
        if here is not None and any(name in here.ids for name in ids):
            return here
        return next((self._by_id[name][-1] for name in ids if name and name in self._by_id), None)

    def _find_growing(self, kind: Kind, index: int | None, call_id: str) -> Item | None:
        candidate = self._open if index is None else self._by_index.get(index)
        return candidate if candidate is not None and candidate.takes(kind, call_id) else None

    def _begin(self, kind: Kind, index: int | None) -> Item:
        item = self._open = Item(kind)
        item.index = index
        self.items.append(item)
        if index is not None:
            self._by_index[index] = item
        return item

    def _add_ids(self, item: Item, ids: tuple[str | None, ...]) -> Item:
        for name in ids:
            if name and name not in item.ids:
                self._by_id.setdefault(name, []).append(item)
                item.ids.add(name)
        return item
