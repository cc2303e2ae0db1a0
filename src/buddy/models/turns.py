"""The order of a reply's parts, as wires store it whose servers want it back: verbatim items, texts and calls.

Invariants:
- items that only their server understands (reasoning, unknown types) are returned to it, and to no other, byte for byte
  and in their original order among the texts and calls of their turn;
- every call of the history is sent exactly once, whatever the stored order says.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec import Struct

from buddy.models.contract import AssistantItem

if TYPE_CHECKING:
    from buddy.models.outputs import Item

Part = TypeVar("Part")


class Entry(Struct, frozen=True, omit_defaults=True):
    """One position in a turn: a verbatim item, a part of the text (start, end), or a call by its number.

    `phase` is what the server wants back with a text or a call: the phase of a message, or a signature.
    """

    item: str | None = None
    text: tuple[int, int] | None = None
    phase: str | None = None
    call: int | None = None


def layout(outputs: "Sequence[Item]", *, has_parts: bool, is_cut: bool) -> list[Entry]:
    """What a reply must store: nothing if its text and calls say it all."""
    entries = list(_entries(outputs, has_parts=has_parts, has_calls=not is_cut))
    if is_cut:
        # Servers reject a reasoning item without a successor.
        while entries and entries[-1].item is not None:
            entries.pop()
    return entries if any(entry.item or entry.phase for entry in entries) else []


def opaque(entries: list[Entry], api: str, origin: str) -> dict[str, object] | None:
    """The entries as they are stored with a reply, marked with their server."""
    return {f"{api}_items": msgspec.to_builtins(entries), f"{api}_origin": origin} if entries else None


def stored_entries(item: AssistantItem, api: str, origin: str) -> list[Entry]:
    kept: dict[str, Any] = item.opaque or {}
    if kept.get(f"{api}_origin") != origin:
        return []
    try:
        return msgspec.convert(kept.get(f"{api}_items", []), list[Entry])
    except msgspec.ValidationError:
        return []


def in_order(
    text: str,
    entries: list[Entry],
    calls: dict[int | None, Part],
    *,
    keep: Callable[[str], Part],
    say: Callable[[str, str | None], Part],
) -> Iterator[Part]:
    """The parts of a turn; `keep` makes one of a verbatim item, `say` of a text and its phase."""
    texts = _texts(text, entries)
    for entry in entries:
        if entry.item is not None:
            yield keep(entry.item)
        elif entry.text is not None:
            part = next(texts, "")
            if part:
                yield say(part, entry.phase)
        elif entry.call in calls:
            yield calls.pop(entry.call)
    if rest := "".join(texts):
        yield say(rest, None)
    yield from calls.values()


def _entries(outputs: "Sequence[Item]", *, has_parts: bool, has_calls: bool) -> Iterator[Entry]:
    calls = 0
    for output in outputs:
        match output.kind:
            case "kept":
                if output.raw:
                    yield Entry(item=output.raw)
            case "message":
                if output.text:
                    part = (output.start, output.end) if has_parts else (0, 0)
                    yield Entry(text=part, phase=output.phase or None)
            case "function_call":
                if has_calls:
                    yield Entry(call=calls, phase=output.phase or None)
                    calls += 1


def _texts(text: str, entries: list[Entry]) -> Iterator[str]:
    """The text in its stored parts; in one part if they do not fit, as after scrubbing."""
    parts = [entry.text for entry in entries if entry.text is not None]
    ends = [0, *(end for part in parts for end in part), len(text)]
    if parts and parts[-1][1] == len(text) and ends == sorted(ends):
        yield from (text[start:end] for start, end in parts)
    else:
        yield text
