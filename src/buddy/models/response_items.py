"""Encodes a history as the input items of a Responses request.

Invariants:
- a reply is sent in the order in which it arrived, with the items that only its server understands (see `turns.py`);
- the arguments of a call are always a JSON object;
- fields that another wire keeps with a message are not sent.
"""

from typing import Any

from buddy.long_json import encode as _encode
from buddy.models.calls import readable
from buddy.models.contract import AssistantItem, Item, ToolItem, UserItem
from buddy.models.pictures import NONE, Pictures, data_url
from buddy.models.turns import in_order, stored_entries
from buddy.protocol.shapes import ToolCallItem
from buddy.steps import Steps

API = "responses"


def encode_item(item: Item, origin: str, pictures: Pictures = NONE) -> Steps[bytes]:
    """The input items for an item of the history and the server `origin`, joined by commas."""
    match item:
        case UserItem():
            return (yield from _encode({"type": "message", "role": "user", "content": _content(item, pictures)}))
        case ToolItem():
            output = _content(item, pictures) if item.images else item.text
            return (yield from _encode({"type": "function_call_output", "call_id": item.call_id, "output": output}))
        case AssistantItem():
            pieces: list[bytes] = []
            for entry in (yield from _turn(item, origin)):
                encoded = entry if isinstance(entry, bytes) else (yield from _encode(entry))
                pieces.append(encoded)
            return b",".join(pieces)


def _content(item: UserItem | ToolItem, pictures: Pictures) -> list[dict[str, Any]]:
    text, shown = pictures.split(item)
    images = [{"type": "input_image", "image_url": data_url(image, content)} for image, content in shown]
    return [{"type": "input_text", "text": text}, *images] if text or not images else images


def _turn(item: AssistantItem, origin: str) -> "Steps[list[dict[str, Any] | bytes]]":
    """The input items of a reply in their order; those kept byte for byte are encoded."""
    calls: dict[int | None, dict[str, Any] | bytes] = {}
    for number, call in enumerate(item.calls):
        calls[number] = yield from _call(call)
    return list(in_order(item.text, stored_entries(item, API, origin), calls, keep=str.encode, say=_said))


def _said(text: str, phase: str | None) -> dict[str, Any]:
    return _message("assistant", "output_text", text, phase)


def _message(role: str, kind: str, text: str, phase: str | None = None) -> dict[str, Any]:
    message: dict[str, Any] = {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}
    return message | {"phase": phase} if phase else message


def _call(call: ToolCallItem) -> Steps[dict[str, Any]]:
    arguments = yield from readable(call.arguments)
    return {"type": "function_call", "call_id": call.call_id, "name": call.name, "arguments": arguments}
