"""The Chat Completions wire: `POST {base_url}/chat/completions`, streamed.

What always holds:
- an item of the history is encoded once; the body of a request is those bytes joined;
- what a server added to an assistant message (its reasoning) goes back in the same fields, unmodified;
- the history is valid for the strictest servers: arguments are a JSON object, call ids are unique.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import msgspec

from buddy.errors import ProviderError
from buddy.models.calls import is_object
from buddy.models.contract import AssistantItem, Item, Piece, Prompt, ToolItem, ToolSpec, UserItem
from buddy.models.encoded import EncodedItems
from buddy.models.folding import Fold
from buddy.models.sse import MAX_EVENT, Events
from buddy.models.wire import Answer, Broken, Wire

if TYPE_CHECKING:
    import httpx2

    from buddy.protocol.shapes import ToolCallItem

_PATH = "/chat/completions"
_WAIT_FOR_USAGE = 5.0


class Completions:
    """A provider behind any server that speaks Chat Completions.

    `idle_timeout` is how long it waits for the next byte. After the finish reason only the usage can be missing, which
    is worth a few seconds; after `[DONE]` only the end of the body, which frees the connection: `linger` is for that.
    """

    api = "completions"

    def __init__(
        self,
        profile: str,
        base_url: str,
        api_key: str,
        model: str,
        context_limit: int,
        *,
        client: "httpx2.AsyncClient | None" = None,
        idle_timeout: float = 120.0,
        linger: float = 0.2,
    ) -> None:
        self.profile = profile
        self.model = model
        self.context_limit = context_limit
        self._wire = Wire(base_url, api_key, api=self.api, idle_timeout=idle_timeout, client=client)
        self._messages = Messages()
        self._asks_usage = True
        self._linger = linger

    async def stream(self, prompt: Prompt) -> AsyncIterator[Piece]:
        fold = Fold()
        async with AsyncExitStack() as exchange:
            answer = await self._open(exchange, prompt)
            async for piece in _pieces(answer, fold, self._linger):
                yield piece
        yield fold.reply(_call_ids(prompt.items))

    async def close(self) -> None:
        await self._wire.close()

    async def _open(self, exchange: AsyncExitStack, prompt: Prompt) -> Answer:
        try:
            return await exchange.enter_async_context(self._wire.post(_PATH, self._body(prompt)))
        except ProviderError as error:
            if error.retryable or not self._asks_usage or "stream_options" not in str(error):
                raise
        # This server does not know the option; it is asked without it from now on.
        self._asks_usage = False
        return await exchange.enter_async_context(self._wire.post(_PATH, self._body(prompt)))

    def _body(self, prompt: Prompt) -> bytes:
        parts = [b'{"model":', _encode(self.model), b',"messages":[', self._messages.joined(prompt), b"]"]
        if prompt.tools:
            parts += [b',"tools":', _encode([_tool(tool) for tool in prompt.tools])]
        if prompt.temperature is not None:
            parts += [b',"temperature":', _encode(prompt.temperature)]
        if prompt.top_p is not None:
            parts += [b',"top_p":', _encode(prompt.top_p)]
        if self._asks_usage:
            parts.append(b',"stream_options":{"include_usage":true}')
        parts.append(b',"stream":true}')
        return b"".join(parts)


class Messages:
    """A prompt as wire messages. Once reasoning came as `reasoning_content`, every turn with calls carries the field:
    DeepSeek refuses a thinking request in which one lacks it."""

    def __init__(self) -> None:
        self._items = EncodedItems(self._message)
        self._reasons = False

    def joined(self, prompt: Prompt) -> bytes:
        reasoned = self._reasons
        encoded = self._items.of(prompt.items)
        if self._reasons != reasoned:
            self._items.forget()
            encoded = self._items.of(prompt.items)
        system = [_encode({"role": "system", "content": prompt.system})] if prompt.system else []
        return b",".join(system + encoded)

    def _message(self, item: Item) -> bytes:
        match item:
            case UserItem():
                return _encode({"role": "user", "content": item.text})
            case ToolItem():
                return _encode({"role": "tool", "tool_call_id": item.call_id, "content": item.text})
            case AssistantItem():
                return _encode(self._assistant(item))

    def _assistant(self, item: AssistantItem) -> dict[str, object]:
        message: dict[str, object] = dict(item.opaque or {})
        if "reasoning_content" in message:
            self._reasons = True
        elif self._reasons and item.calls:
            message["reasoning_content"] = ""
        message |= {"role": "assistant", "content": item.text or (None if item.calls else "")}
        if item.calls:
            message["tool_calls"] = [_call(call) for call in item.calls]
        return message


async def _pieces(answer: Answer, fold: Fold, linger: float) -> AsyncIterator[Piece]:
    if answer.content_type == "text/html":
        hint = "base_url is where the API is, mostly ending in /v1"
        raise ProviderError("the server answered with a web page", retryable=False, hint=hint)
    if answer.content_type == "application/json":
        for piece in fold.feed_whole(await answer.read_some(MAX_EVENT)):
            yield piece
        return
    events = Events()
    while (batch := await _next_batch(answer, fold, linger)) is not None and not fold.done:
        for piece in fold.feed(events.feed(batch)):
            yield piece
    for piece in fold.feed_rest(events.finish()):
        yield piece


async def _next_batch(answer: Answer, fold: Fold, linger: float) -> bytes | None:
    """What came next; None at the end, which a reply that is whole or has text does not wait for in vain."""
    patience = linger if fold.done else _WAIT_FOR_USAGE if fold.finish else None
    try:
        async with asyncio.timeout(patience):
            return await answer.batch()
    except TimeoutError:
        return None
    except Broken:
        if fold.finish or fold.done or fold.has_text():
            return None
        raise


def _call(call: "ToolCallItem") -> dict[str, object]:
    # Servers parse the arguments of earlier turns, and refuse the whole history for one that is not an object.
    arguments = call.arguments if is_object(call.arguments) else _encode({"unreadable": call.arguments}).decode()
    return {"id": call.call_id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def _tool(tool: ToolSpec) -> dict[str, object]:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}


def _call_ids(items: Sequence[Item]) -> set[str]:
    return {call.call_id for item in items if isinstance(item, AssistantItem) for call in item.calls}


_encode = msgspec.json.Encoder().encode
