"""Encodes a history as the input items of a Responses request.

Invariants:
- items that only their server understands (reasoning, unknown types) are returned to it, and to no other, byte for byte
  and in their original order among the messages and calls of their turn;
- every call of the history is sent exactly once, whatever the stored order says, and its arguments are always a JSON
  object;
- fields that another wire keeps with a message are not sent.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from buddy.long_json import encode as _encode
from buddy.models.calls import readable
from buddy.models.contract import AssistantItem, Item, ToolItem, UserItem
from buddy.models.outputs import Item as Output
from buddy.protocol.shapes import ToolCallItem
from buddy.steps import Steps

KEPT = "responses_items"
ORIGIN = "responses_origin"


class Entry(Struct, frozen=True, omit_defaults=True):
    """One position in a turn: a verbatim item, a part of the text (start, end), or a call by its number."""

    item: str | None = None
    text: tuple[int, int] | None = None
    phase: str | None = None
    call: int | None = None


def layout(outputs: Sequence[Output], *, has_parts: bool, is_cut: bool) -> list[Entry]:
    """What a reply must store: nothing if its text and calls say it all."""
    entries = list(_entries(outputs, has_parts=has_parts, has_calls=not is_cut))
    if is_cut:
        # Servers reject a reasoning item without a successor.
        while entries and entries[-1].item is not None:
            entries.pop()
    return entries if any(entry.item or entry.phase for entry in entries) else []


def opaque(entries: list[Entry], origin: str) -> dict[str, object] | None:
    """The entries as they are stored with a reply, marked with their server."""
    return {KEPT: msgspec.to_builtins(entries), ORIGIN: origin} if entries else None


def encode_item(item: Item, origin: str) -> Steps[bytes]:
    """The input items for an item of the history and the server `origin`, joined by commas."""
    match item:
        case UserItem():
            return (yield from _encode(_message("user", "input_text", item.text)))
        case ToolItem():
            output = {"type": "function_call_output", "call_id": item.call_id, "output": item.text}
            return (yield from _encode(output))
        case AssistantItem():
            pieces: list[bytes] = []
            for entry in (yield from _turn(item, origin)):
                encoded = entry if isinstance(entry, bytes) else (yield from _encode(entry))
                pieces.append(encoded)
            return b",".join(pieces)


def _entries(outputs: Sequence[Output], *, has_parts: bool, has_calls: bool) -> Iterator[Entry]:
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
                    yield Entry(call=calls)
                    calls += 1


def _turn(item: AssistantItem, origin: str) -> "Steps[list[dict[str, Any] | bytes]]":
    """The input items of a reply in their order; those kept byte for byte are encoded."""
    calls: dict[int | None, dict[str, Any]] = {}
    for number, call in enumerate(item.calls):
        calls[number] = yield from _call(call)
    return list(_ordered(item, _stored_entries(item, origin), calls))


def _ordered(
    item: AssistantItem, entries: list[Entry], calls: dict[int | None, dict[str, Any]]
) -> Iterator[dict[str, Any] | bytes]:
    texts = _texts(item.text, entries)
    for entry in entries:
        if entry.item is not None:
            yield entry.item.encode()
        elif entry.text is not None:
            text = next(texts, "")
            if text:
                yield _message("assistant", "output_text", text, entry.phase)
        elif entry.call in calls:
            yield calls.pop(entry.call)
    if rest := "".join(texts):
        yield _message("assistant", "output_text", rest)
    yield from calls.values()


def _stored_entries(item: AssistantItem, origin: str) -> list[Entry]:
    kept = item.opaque or {}
    if kept.get(ORIGIN) != origin:
        return []
    try:
        return msgspec.convert(kept.get(KEPT, []), list[Entry])
    except msgspec.ValidationError:
        return []


def _texts(text: str, entries: list[Entry]) -> Iterator[str]:
    """The text in its stored parts; in one part if they do not fit, as after scrubbing."""
    parts = [entry.text for entry in entries if entry.text is not None]
    ends = [0, *(end for part in parts for end in part), len(text)]
    if parts and parts[-1][1] == len(text) and ends == sorted(ends):
        yield from (text[start:end] for start, end in parts)
    else:
        yield text


def _message(role: str, kind: str, text: str, phase: str | None = None) -> dict[str, Any]:
    message: dict[str, Any] = {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}
    return message | {"phase": phase} if phase else message


def _call(call: ToolCallItem) -> Steps[dict[str, Any]]:
    arguments = yield from readable(call.arguments)
    return {"type": "function_call", "call_id": call.call_id, "name": call.name, "arguments": arguments}
