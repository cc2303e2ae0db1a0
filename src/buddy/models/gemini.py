"""The Gemini wire: `POST {base_url}/models/{model}:streamGenerateContent`, streamed.

Invariants:
- an item of the history is encoded once; the body of a request is those bytes joined;
- thought signatures are returned as they arrived, on their own parts, to the server that signed them.
"""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec

from buddy.models.contract import Piece, Prompt, ToolSpec
from buddy.models.encoded import EncodedItems, EncodedValue, join_pieces
from buddy.models.exchange import Exchange, LeftOut
from buddy.models.gemini_items import API, GeminiParts, join_contents
from buddy.models.pictures import Pictures
from buddy.models.wire import Wire
from buddy.steps import Steps

if TYPE_CHECKING:
    from buddy.models.credentials import Credentials
    from buddy.models.gemini_fold import GeminiFold
    from buddy.models.http.pool import Pool

# What may be left out if a server refuses it by name, in any of the spellings of its errors.
_SIGNATURES = {"thoughtsignature", "thought_signature", "signature", "signatures"}
_THINKING = {"thinkingconfig", "thinking_config", "include_thoughts", "includethoughts", "thinking"}
_SCHEMAS = {"parametersjsonschema", "parameters_json_schema"}
_OPTIONAL = (*_SIGNATURES, *_THINKING, *_SCHEMAS, "temperature", "topp", "stream", "id")


class Gemini:
    """A provider behind any server that speaks Gemini's API.

    `idle_timeout` is how long it waits for the next byte, `linger` for the end of a body whose reply is complete.
    """

    api = API

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
        self._exchange = Exchange(self._wire, self._path, _OPTIONAL, linger, pictures=self._pictures)
        self._system = EncodedValue[str](_encode)
        self._parts = GeminiParts(self._wire.origin, self._pictures)
        self._items = EncodedItems(self._parts.encode)

    def stream(self, prompt: Prompt) -> AsyncIterator[Piece]:
        return self._exchange.stream(
            lambda left_out: self._body(prompt, left_out), self._fold, lambda: self._items.call_ids(prompt.items)
        )

    async def close(self) -> None:
        await self._wire.close()

    def _path(self, left_out: LeftOut) -> str:
        model = quote(self.model.removeprefix("models/"), safe="")
        return f"/models/{model}:{'generateContent' if 'stream' in left_out else 'streamGenerateContent?alt=sse'}"

    def _fold(self) -> "GeminiFold":
        from buddy.models.gemini_fold import GeminiFold

        return GeminiFold(self._wire.origin)

    def _body(self, prompt: Prompt, left_out: LeftOut) -> Steps[list[bytes]]:
        contents = yield from self._contents(prompt, left_out)
        parts = [b'{"contents":[', *contents, b"]"]
        if prompt.system:
            parts += [b',"systemInstruction":{"parts":[{"text":', self._system.of(prompt.system), b"}]}"]
        if prompt.tools:
            tools = _plain_tools if left_out & _SCHEMAS else _shared_tools
            parts += [b',"tools":', tools.of(prompt.tools)]
        settings: dict[str, Any] = {}
        if prompt.temperature is not None and "temperature" not in left_out:
            settings["temperature"] = prompt.temperature
        if prompt.top_p is not None and "topp" not in left_out:
            settings["topP"] = prompt.top_p
        if not left_out & _THINKING:
            settings["thinkingConfig"] = {"includeThoughts": True}
        if settings:
            parts += [b',"generationConfig":', _encode(settings)]
        return [*parts, b"}"]

    def _contents(self, prompt: Prompt, left_out: LeftOut) -> Steps[list[bytes]]:
        has_ids, has_signatures = "id" not in left_out, not left_out & _SIGNATURES
        changed = (has_ids, has_signatures) != (self._parts.has_ids, self._parts.has_signatures)
        if self._pictures.use(prompt) or changed:
            self._parts.has_ids, self._parts.has_signatures = has_ids, has_signatures
            self._items.forget()
        encoded = yield from self._items.of(prompt.items)
        return join_pieces(join_contents(prompt.items, encoded))


def _tools(tools: tuple[ToolSpec, ...]) -> bytes:
    return _declared(tools, "parametersJsonSchema")


def _old_tools(tools: tuple[ToolSpec, ...]) -> bytes:
    return _declared(tools, "parameters")


def _declared(tools: tuple[ToolSpec, ...], key: str) -> bytes:
    functions = [{"name": tool.name, "description": tool.description, key: tool.parameters} for tool in tools]
    return _encode([{"functionDeclarations": functions}])


_encode = msgspec.json.Encoder().encode

# All sessions of a kind offer the same tools.
_shared_tools = EncodedValue(_tools)
_plain_tools = EncodedValue(_old_tools)
