"""Tool calls put together from the deltas that servers send, in all the ways they number and name them.

What always holds: every call has a name, an id that no other call of the conversation has, and arguments that are at
least `{}`. A delta belongs, in this order, to
- the call that has its id, whatever its index;
- a new call, where its id is new and the call at its index has an id (some servers label every call index 0);
- the call at its index, which gets the id late if it had none;
- the call that is open, where it has neither id nor index;
- a new call, where it brings a name and the call it would belong to is another one or already whole.
An empty id, name or index counts as absent.
"""

from collections.abc import Iterator
from collections.abc import Set as AbstractSet

import msgspec

from buddy.models.chunks import CallDelta
from buddy.protocol.shapes import ToolCallItem

UNNAMED = "unnamed"


class Calls:
    """The calls of one reply."""

    def __init__(self) -> None:
        self._calls: list[_Open] = []
        self._by_id: dict[str, _Open] = {}
        self._by_index: dict[int, _Open] = {}
        self._open: _Open | None = None

    def __bool__(self) -> bool:
        return bool(self._calls)

    def add(self, delta: CallDelta) -> None:
        call = self._open = self._owner(delta) or self._begin()
        if delta.index is not None:
            self._by_index[delta.index] = call
        if delta.id and not call.id:
            call.id = delta.id
            self._by_id[delta.id] = call
        call.name = call.name or _name(delta)
        call.arguments.append(_arguments(delta))

    def items(self, taken: AbstractSet[str]) -> tuple[ToolCallItem, ...]:
        """The finished calls; `taken` are the call ids that the conversation has already."""
        used = set(taken)
        return tuple(self._items(used))

    def _items(self, used: set[str]) -> Iterator[ToolCallItem]:
        for at, call in enumerate(self._calls):
            call_id = _unused(call.id, used) if call.id else _unused(f"call_{at}", used)
            used.add(call_id)
            # A call without a name is kept: its error result lets the model try again, dropping it would end the run.
            yield ToolCallItem(call_id, call.name or UNNAMED, "".join(call.arguments).strip() or "{}")

    def _begin(self) -> "_Open":
        call = _Open()
        self._calls.append(call)
        return call

    def _owner(self, delta: CallDelta) -> "_Open | None":
        if delta.id and delta.id in self._by_id:
            return self._by_id[delta.id]
        candidate = self._open if delta.index is None else self._by_index.get(delta.index)
        if candidate is None or (delta.id and candidate.id) or candidate.is_followed_by(delta):
            return None
        return candidate


class _Open:
    """A call that may still grow."""

    def __init__(self) -> None:
        self.id = ""
        self.name = ""
        self.arguments: list[str] = []

    def is_followed_by(self, delta: CallDelta) -> bool:
        """Whether a delta without a known id is a call of its own: servers that give no ids send calls whole."""
        name = _name(delta)
        if not name or not self.name:
            return False
        return name != self.name or (bool(_arguments(delta)) and self._is_whole())

    def _is_whole(self) -> bool:
        text = "".join(self.arguments)
        return text.rstrip().endswith("}") and is_object(text)


def is_object(text: str) -> bool:
    """Whether the text is one JSON object."""
    try:
        msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return False
    return True


def _name(delta: CallDelta) -> str:
    return (delta.function.name if delta.function else None) or ""


def _arguments(delta: CallDelta) -> str:
    given = delta.function.arguments if delta.function else None
    return msgspec.json.encode(given).decode() if isinstance(given, dict) else given or ""


def _unused(wanted: str, used: AbstractSet[str]) -> str:
    if wanted not in used:
        return wanted
    again = 2
    while f"{wanted}_{again}" in used:
        again += 1
    return f"{wanted}_{again}"
