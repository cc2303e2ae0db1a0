"""Assembles tool calls from the deltas that servers send, in all the ways they number and name them.

Invariants: every call has a name and an id of bounded length, the id unique in the conversation, and arguments that are
at least `{}`. A delta belongs, in this order, to
- the call at its index, if that has its id;
- a new call, if it brings a name and an index of its own, though its id is known: two calls with one id stay two;
- the latest call with its id, whatever its index;
- a new call, if its id is new and the call at its index has an id (some servers label every call index 0);
- the call at its index, which gets the id late if it had none;
- the open call, if it has neither id nor index;
- a new call, if it brings a name and the call it would belong to is a different one or already complete.
An empty id, name or index counts as absent.
"""

import re
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

import msgspec

from buddy.long_json import LONG, decode, encode
from buddy.models.contract import AssistantItem, Item
from buddy.models.limits import MAX_KEPT_CALLS, MAX_NAME, TOO_LONG, Size, refuse
from buddy.protocol.shapes import ToolCallItem
from buddy.steps import Steps

if TYPE_CHECKING:
    from buddy.models.chunks import CallDelta

UNNAMED = "unnamed"
# The fields in which a reply keeps what a server added to its calls, and the id of that server.
CALL_FIELDS = "completions_call_fields"
ORIGIN = "completions_origin"


class Calls:
    """The calls of one reply."""

    def __init__(self) -> None:
        self._calls: list[_Open] = []
        self._by_id: dict[str, _Open] = {}
        self._by_index: dict[int, _Open] = {}
        self._open: _Open | None = None
        self._size = Size()

    def __bool__(self) -> bool:
        return bool(self._calls)

    @property
    def is_full(self) -> bool:
        """Whether a limit is reached, so that nothing more is read."""
        return self._size.is_arguments_full or len(self._calls) > MAX_KEPT_CALLS

    def add(self, delta: "CallDelta") -> None:
        if self.is_full:
            return
        call = self._open = self._owner(delta) or self._begin()
        if delta.index is not None:
            self._by_index[delta.index] = call
        if delta.id and not call.id:
            call.id = delta.id
            self._by_id[delta.id] = call  # the latest: a delta without an index continues it
        call.name = call.name or _name(delta)
        call.arguments.append(_arguments(delta))
        self._size.add_arguments(call.arguments[-1])
        if self._size.is_arguments_full:
            call.arguments = [refuse(TOO_LONG)]
        call.rest |= delta.rest or {}

    def items(self, taken: AbstractSet[str]) -> tuple[ToolCallItem, ...]:
        """The finished calls; `taken` are the call ids that the conversation has already."""
        return finish_calls(((call.id, call.name, "".join(call.arguments)) for call in self._calls), taken)

    def rests(self, items: tuple[ToolCallItem, ...]) -> dict[str, dict[str, object]]:
        """Other fields of the finished calls, by call id; the server wants them back."""
        return {item.call_id: call.rest for item, call in zip(items, self._calls, strict=False) if call.rest}

    def _begin(self) -> "_Open":
        call = _Open()
        self._calls.append(call)
        return call

    def _owner(self, delta: "CallDelta") -> "_Open | None":
        candidate = self._open if delta.index is None else self._by_index.get(delta.index)
        named = self._by_id.get(delta.id) if delta.id else None
        if named is not None:
            found = candidate if candidate is not None and candidate.id == delta.id else named
            is_elsewhere = candidate is None and delta.index is not None and bool(_name(delta) and named.name)
            return None if is_elsewhere or found.is_followed_by(delta) else found
        if candidate is None or (delta.id and candidate.id) or candidate.is_followed_by(delta):
            return None
        return candidate


def finish_calls(calls: Iterable[tuple[str, str, str]], taken: AbstractSet[str]) -> tuple[ToolCallItem, ...]:
    """Calls (id, name, arguments) that can go into a history in which the ids `taken` are used."""
    mine: set[str] = set()
    items: list[ToolCallItem] = []
    for at, (wanted, name, arguments) in enumerate(calls):
        call_id = _unused_id(wanted if 0 < len(wanted) <= MAX_NAME else f"call_{at}", taken, mine)
        mine.add(call_id)
        # A call without a name is kept: its error result lets the model try again; dropping it would end the run.
        items.append(ToolCallItem(call_id, name[:MAX_NAME] or UNNAMED, arguments.strip() or "{}"))
    return tuple(items)


def call_ids(items: Iterable[Item]) -> set[str]:
    """The ids that a history uses."""
    return {call.call_id for item in items if isinstance(item, AssistantItem) for call in item.calls}


def readable(arguments: str) -> Steps[str]:
    """Arguments as a server accepts them: it rejects the complete history if one is not an object."""
    try:
        if len(arguments) <= LONG:
            _objects.decode(arguments)
            return arguments
        if isinstance((yield from decode(arguments)), dict):
            return arguments
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        pass
    return (yield from encode({"unreadable": arguments})).decode()


class _Open:
    """A call that may still grow."""

    def __init__(self) -> None:
        self.id = ""
        self.name = ""
        self.arguments: list[str] = []
        self.rest: dict[str, object] = {}
        self._nesting = Nesting()
        self._read = 0

    def is_followed_by(self, delta: "CallDelta") -> bool:
        """Whether a delta without a known id starts another call: servers without ids send complete calls."""
        name = _name(delta)
        if not name or not self.name:
            return False
        return name != self.name or (bool(_arguments(delta)) and self._is_complete())

    def _is_complete(self) -> bool:
        for part in self.arguments[self._read :]:
            self._nesting.add(part)
        self._read = len(self.arguments)
        return self._nesting.is_complete


class Nesting:
    """Whether a JSON text that arrives in parts is one complete object; each part is read once."""

    def __init__(self) -> None:
        self._depth = 0
        self._closed = 0
        self._in_text = False
        self._escape = ""

    @property
    def is_complete(self) -> bool:
        return self._depth == 0 and self._closed == 1 and not self._in_text

    def add(self, part: str) -> None:
        part = self._escape + part
        self._escape = "\\" * ((len(part) - len(part.rstrip("\\"))) % 2)
        part = part.removesuffix(self._escape)
        for sign in _SIGNS.findall(part):
            if sign == '"':
                self._in_text = not self._in_text
            elif not self._in_text and sign in "{[":
                self._depth += 1
            elif not self._in_text and sign in "}]":
                self._depth -= 1
                self._closed += self._depth == 0


_SIGNS = re.compile(r'\\.|["{}\[\]]', re.DOTALL)


_objects = msgspec.json.Decoder(dict[str, msgspec.Raw])


def _name(delta: "CallDelta") -> str:
    return (delta.function.name if delta.function else None) or ""


def _arguments(delta: "CallDelta") -> str:
    given = delta.function.arguments if delta.function else None
    return msgspec.json.encode(given).decode() if isinstance(given, dict) else given or ""


def _unused_id(wanted: str, *used: AbstractSet[str]) -> str:
    found, again = wanted, 1
    while any(found in ids for ids in used):
        again += 1
        found = f"{wanted}_{again}"
    return found
