"""Encodes a history as the content blocks of an Anthropic Messages request.

Invariants:
- a reply is sent in the order in which it arrived, with the thinking of its own server (see `turns.py`), which is never
  its last block;
- no text is blank, ids and names have the characters that the API accepts, and arguments are a JSON object;
- items that follow one another in one role are one message, so that the results of all calls are together.
"""

import hashlib
import re
from collections.abc import Iterator, Sequence

import msgspec

from buddy.long_json import encode
from buddy.models.calls import readable
from buddy.models.contract import AssistantItem, Item, ToolItem, UserItem
from buddy.models.pictures import NONE, Pictures, in_json
from buddy.models.turns import in_order, stored_entries
from buddy.protocol.shapes import ToolCallItem
from buddy.steps import Steps, encode_text

API = "anthropic"
_NOTHING = "(empty)"
_REFUSED = re.compile(r"[^a-zA-Z0-9_-]")
_MAX_NAME = 128
_MARK = b',"cache_control":{"type":"ephemeral"}}'
_THINKING = b'{"type":"thinking"', b'{"type":"redacted_thinking"'
_MARKED = 2


def encode_blocks(item: Item, origin: str, pictures: Pictures = NONE, *, keeps_thinking: bool) -> Steps[bytes]:
    """The blocks for an item of the history and the server `origin`, joined by commas; empty if there are none."""
    match item:
        case UserItem():
            blocks = list(_blocks(item, pictures))
            return (yield from encode(blocks or [_text(_NOTHING)]))[1:-1]
        case ToolItem():
            content = list(_blocks(item, pictures)) if item.images else item.text
            result = {"type": "tool_result", "tool_use_id": clean(item.call_id), "content": content}
            return (yield from encode(result))
        case AssistantItem():
            return (yield from _turn(item, origin, keeps_thinking=keeps_thinking))


def join_messages(items: Sequence[Item], encoded: Sequence[bytes], *, is_marked: bool) -> list[bytes]:
    """The messages in pieces. What precedes the end of the last two messages of the user can be cached: the earlier one
    is where the request before this one ended."""
    messages = list(_messages(items, encoded))
    users = [number for number, (role, _) in enumerate(messages) if role == b"user"]
    marked = set(users[-_MARKED:] if is_marked else ())
    pieces: list[bytes] = []
    for number, (role, blocks) in enumerate(messages):
        pieces += [b"," if pieces else b"", b'{"role":"', role, b'","content":[', *_with_commas(blocks[:-1])]
        last = blocks[-1][:-1] + _MARK if number in marked else blocks[-1]
        pieces += [b"," if len(blocks) > 1 else b"", last, b"]}"]
    return pieces


def clean(name: str) -> str:
    """An id or a name in the characters that the API accepts; one that is changed stays different from others."""
    found = _REFUSED.sub("_", name)[:_MAX_NAME]
    if found == name:
        return name
    return f"{found[: _MAX_NAME - 9]}_{hashlib.sha256(name.encode(errors='surrogatepass')).hexdigest()[:8]}"


def _messages(items: Sequence[Item], encoded: Sequence[bytes]) -> Iterator[tuple[bytes, list[bytes]]]:
    """Each message's role and blocks; the first is the user's."""
    role, blocks = b"user", list[bytes]()
    for item, more in zip(items, encoded, strict=True):
        if not more:
            continue
        speaker = b"assistant" if isinstance(item, AssistantItem) else b"user"
        if speaker != role:
            yield role, blocks or [msgspec.json.encode(_text(_NOTHING))]
            role, blocks = speaker, []
        blocks.append(more)
    if blocks:
        yield role, blocks


def _with_commas(blocks: Sequence[bytes]) -> Iterator[bytes]:
    for number, block in enumerate(blocks):
        yield from (b",", block) if number else (block,)


def _blocks(item: UserItem | ToolItem, pictures: Pictures) -> Iterator[dict[str, object]]:
    text, shown = pictures.split(item)
    for image, content in shown:
        source = {"type": "base64", "media_type": image.media_type, "data": in_json(content)}
        yield {"type": "image", "source": source}
    if text.strip():
        yield _text(text)


def _text(text: str) -> dict[str, object]:
    return {"type": "text", "text": text}


def _turn(item: AssistantItem, origin: str, *, keeps_thinking: bool) -> Steps[bytes]:
    calls: dict[int | None, bytes | str] = {}
    for number, call in enumerate(item.calls):
        calls[number] = yield from _call(call)
    entries = stored_entries(item, API, origin)
    if not keeps_thinking:
        entries = [entry for entry in entries if entry.item is None]
    pieces: list[bytes] = []
    for part in in_order(item.text, entries, calls, keep=str.encode, say=_said):
        if isinstance(part, bytes):
            pieces.append(part)
        elif part.strip():
            pieces.append((yield from encode(_text(part))))
    while pieces and pieces[-1].startswith(_THINKING):
        pieces.pop()
    return b",".join(pieces)


def _said(text: str, _: str | None) -> str:
    return text


def _call(call: ToolCallItem) -> Steps[bytes]:
    arguments = yield from readable(call.arguments)
    head = {"type": "tool_use", "id": clean(call.call_id), "name": clean(call.name)}
    return b"".join((msgspec.json.encode(head)[:-1], b',"input":', (yield from encode_text(arguments)), b"}"))
