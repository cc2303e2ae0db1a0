"""Encodes a history as the parts of a Gemini request.

Invariants:
- a reply is sent in the order in which it arrived, with the signatures of its own server (see `turns.py`), each on the
  part that it came with;
- a result names the function of its call; arguments are a JSON object;
- items that follow one another in one role are one content, so that the results of all calls are together.
"""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from buddy.long_json import encode
from buddy.models.calls import readable
from buddy.models.contract import AssistantItem, Item, ToolItem, UserItem
from buddy.models.pictures import NONE, Pictures, in_json
from buddy.models.turns import in_order, stored_entries
from buddy.protocol.shapes import ToolCallItem
from buddy.steps import Steps, encode_text

API = "gemini"
_NOTHING = {"text": "(empty)"}


class GeminiParts:
    """Encodes the items of one server's requests; `has_ids` says whether it takes the ids of calls."""

    def __init__(self, origin: str, pictures: Pictures = NONE) -> None:
        self._origin = origin
        self._pictures = pictures
        self._names: dict[str, str] = {}
        self.has_ids = True
        self.has_signatures = True

    def encode(self, item: Item) -> Steps[bytes]:
        """The parts for an item, joined by commas; empty if there are none."""
        match item:
            case UserItem():
                return (yield from encode(list(self._said(item)) or [_NOTHING]))[1:-1]
            case ToolItem():
                return (yield from encode(list(self._result(item))))[1:-1]
            case AssistantItem():
                self._names.update((call.call_id, call.name) for call in item.calls)
                return (yield from self._turn(item))

    def _said(self, item: UserItem) -> Iterator[dict[str, object]]:
        text, shown = self._pictures.split(item)
        if text:
            yield {"text": text}
        for image, content in shown:
            yield {"inlineData": {"mimeType": image.media_type, "data": in_json(content)}}

    def _result(self, item: ToolItem) -> Iterator[dict[str, object]]:
        text, shown = self._pictures.split(item)
        found: dict[str, object] = {
            "name": self._names.get(item.call_id, "unknown"),
            "response": {"output": text},
        }
        yield {"functionResponse": {"id": item.call_id, **found} if self.has_ids else found}
        for image, content in shown:
            yield {"inlineData": {"mimeType": image.media_type, "data": in_json(content)}}

    def _turn(self, item: AssistantItem) -> Steps[bytes]:
        entries = stored_entries(item, API, self._origin) if self.has_signatures else []
        signatures = {entry.call: entry.phase for entry in entries if entry.call is not None}
        calls: dict[int | None, bytes | Mapping[str, object]] = {}
        for number, call in enumerate(item.calls):
            calls[number] = yield from self._call(call, signatures.get(number))
        pieces: list[bytes] = []
        for part in in_order(item.text, entries, calls, keep=str.encode, say=_said):
            encoded = part if isinstance(part, bytes) else (yield from encode(part))
            pieces.append(encoded)
        return b",".join(pieces)

    def _call(self, call: ToolCallItem, signature: str | None) -> Steps[bytes]:
        arguments = yield from readable(call.arguments)
        head = {"id": call.call_id, "name": call.name} if self.has_ids else {"name": call.name}
        marked = b',"thoughtSignature":' + msgspec.json.encode(signature) if signature else b""
        encoded = yield from encode_text(arguments)
        return b"".join((b'{"functionCall":', msgspec.json.encode(head)[:-1], b',"args":', encoded, b"}", marked, b"}"))


def join_contents(items: Sequence[Item], encoded: Sequence[bytes]) -> list[bytes]:
    """The contents in pieces."""
    pieces: list[bytes] = []
    role = b""
    for item, parts in zip(items, encoded, strict=True):
        if not parts:
            continue
        speaker = b"model" if isinstance(item, AssistantItem) else b"user"
        if speaker == role:
            pieces.append(b",")
        else:
            pieces += [b"]}," if role else b"", b'{"role":"', speaker, b'","parts":[']
            role = speaker
        pieces.append(parts)
    return [*pieces, b"]}"] if role else []


def _said(text: str, signature: str | None) -> Mapping[str, object]:
    return {"text": text, "thoughtSignature": signature} if signature else {"text": text}
