"""The Chat Completions wire: `POST {base_url}/chat/completions`, streamed.

Invariants:
- an item of the history is encoded once; the body of a request is those bytes joined;
- what a server added to an assistant message or a call is returned in the same fields, unmodified; of another server
  only the reasoning is;
- the history is valid for the strictest servers: arguments are a JSON object, call ids are unique.
"""

from collections.abc import AsyncIterator, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any

import msgspec

from buddy.long_json import encode
from buddy.models.apis import is_private_field
from buddy.models.calls import CALL_FIELDS, ORIGIN, readable
from buddy.models.contract import AssistantItem, Image, Item, Piece, Prompt, ToolItem, ToolSpec, UserItem
from buddy.models.encoded import EncodedItems, EncodedValue, is_long, join_items
from buddy.models.exchange import Exchange, LeftOut
from buddy.models.pictures import Pictures, data_url
from buddy.models.wire import Wire
from buddy.steps import Steps

if TYPE_CHECKING:
    from buddy.models.credentials import Credentials
    from buddy.models.folding import Fold
    from buddy.models.http.pool import Pool

_PATH = "/chat/completions"
Part = dict[str, Any]

_REASONING = {"reasoning_content", "reasoning", "reasoning_details"}


class Completions:
    """A provider behind any server that speaks Chat Completions.

    `idle_timeout` is how long it waits for the next byte, `linger` for the end of a body whose reply is complete.
    """

    api = "completions"

    def __init__(
        self,
        profile: str,
        base_url: str,
        api_key: "str | Credentials",
        model: str,
        context_limit: int,
        *,
        idle_timeout: float = 120.0,
        linger: float = 0.2,
        pool: "Pool | None" = None,
    ) -> None:
        self.profile = profile
        self.model = model
        self.context_limit = context_limit
        self._wire = Wire(base_url, api_key, api=self.api, idle_timeout=idle_timeout, pool=pool)
        self._pictures = Pictures()
        self._exchange = Exchange(self._wire, _PATH, ("stream_options", "stream"), linger, pictures=self._pictures)
        self._messages = Messages(self._wire.origin, self._pictures)

    def stream(self, prompt: Prompt) -> AsyncIterator[Piece]:
        return self._exchange.stream(
            lambda left_out: self._body(prompt, left_out), self._fold, lambda: self._messages.call_ids(prompt)
        )

    async def close(self) -> None:
        await self._wire.close()

    def _fold(self) -> "Fold":
        from buddy.models.folding import Fold

        return Fold(self._wire.origin)

    def _body(self, prompt: Prompt, left_out: LeftOut) -> Steps[list[bytes]]:
        parts = [b'{"model":', _encode(self.model), b',"messages":[', *(yield from self._messages.of(prompt)), b"]"]
        if prompt.tools:
            parts += [b',"tools":', _shared_tools.of(prompt.tools)]
        if prompt.temperature is not None:
            parts += [b',"temperature":', _encode(prompt.temperature)]
        if prompt.top_p is not None:
            parts += [b',"top_p":', _encode(prompt.top_p)]
        if "stream" not in left_out:
            parts.append(b',"stream":true')
        if not left_out & {"stream", "stream_options"}:
            parts.append(b',"stream_options":{"include_usage":true}')
        return [*parts, b"}"]


class Messages:
    """A prompt as wire messages. Once reasoning came as `reasoning_content`, every turn with calls carries the field:
    DeepSeek rejects a thinking request in which one lacks it."""

    def __init__(self, origin: str, pictures: Pictures | None = None) -> None:
        self._origin = origin
        self._pictures = pictures or Pictures()
        self._items = EncodedItems(self._message)
        self._system = EncodedValue(_system)
        self._reasons = self._reasoned = False

    def call_ids(self, prompt: Prompt) -> AbstractSet[str]:
        return self._items.call_ids(prompt.items)

    def of(self, prompt: Prompt) -> Steps[list[bytes]]:
        """The messages with commas between them, in pieces."""
        if self._pictures.use(prompt):
            self._items.forget()
        encoded = yield from self._items.of(prompt.items)
        if self._reasons != self._reasoned:
            self._reasoned = self._reasons
            self._items.forget()
            encoded = yield from self._items.of(prompt.items)
        if self._pictures.has_any:
            encoded = list(self._with_images_of_results(prompt.items, encoded))
        return join_items([self._system.of(prompt.system), *encoded] if prompt.system else encoded)

    def _with_images_of_results(self, items: Sequence[Item], encoded: Sequence[bytes]) -> Iterator[bytes]:
        """A result is text alone, so its images follow in a message of the user, after the results of all calls."""
        waiting: list[Part] = []
        for item, message in zip(items, encoded, strict=True):
            if waiting and not isinstance(item, ToolItem):
                yield _encode({"role": "user", "content": waiting})
                waiting = []
            if isinstance(item, ToolItem) and item.images:
                waiting += _image_parts(self._pictures.split(item)[1])
            yield message
        if waiting:
            yield _encode({"role": "user", "content": waiting})

    def _message(self, item: Item) -> Steps[bytes]:
        match item:
            case AssistantItem():
                message = yield from self._assistant(item)
            case ToolItem():
                text = self._pictures.split(item)[0] if item.images else item.text
                message = {"role": "tool", "tool_call_id": item.call_id, "content": text}
            case UserItem():
                text, shown = self._pictures.split(item)
                said = [{"type": "text", "text": text}] if text else []
                content = [*said, *_image_parts(shown)] if shown else text
                message = {"role": "user", "content": content}
        return (yield from encode(message)) if is_long(item) else _encode(message)

    def _assistant(self, item: AssistantItem) -> Steps[dict[str, Any]]:
        message, rests = self._returned_fields(item.opaque) if item.opaque else ({}, {})
        if "reasoning_content" in message:
            self._reasons = True
        elif self._reasons and item.calls:
            message["reasoning_content"] = ""
        message["role"] = "assistant"
        message["content"] = item.text or (None if item.calls else "")
        calls: list[dict[str, Any]] = []
        for call in item.calls:
            function = {"name": call.name, "arguments": (yield from readable(call.arguments))}
            rest = rests.get(call.call_id, _NONE)
            calls.append({**rest, "id": call.call_id, "type": "function", "function": function})
        if calls:
            message["tool_calls"] = calls
        return message

    def _returned_fields(self, opaque: dict[str, Any]) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
        """The added fields to return: those of the message, and those of its calls by call id."""
        is_ours = opaque.get(ORIGIN, self._origin) == self._origin
        message = {
            name: value
            for name, value in opaque.items()
            if name in _REASONING or (is_ours and not is_private_field(name))
        }
        return message, opaque.get(CALL_FIELDS, {}) if is_ours else {}


def _image_parts(shown: list[tuple[Image, bytes]]) -> list[Part]:
    return [{"type": "image_url", "image_url": {"url": data_url(image, content)}} for image, content in shown]


def _system(text: str) -> bytes:
    return _encode({"role": "system", "content": text})


def _tools(tools: tuple[ToolSpec, ...]) -> bytes:
    return _encode([{"type": "function", "function": tool} for tool in tools])


_encode = msgspec.json.Encoder().encode
_NONE: dict[str, Any] = {}

# All sessions of a kind offer the same tools.
_shared_tools = EncodedValue(_tools)
