"""The Anthropic Messages wire: `POST {base_url}/messages`, streamed.

Invariants:
- an item of the history is encoded once; the body of a request is those bytes joined;
- thinking is returned with its signature, as it arrived, to the server that signed it;
- the instructions with the tools, and the conversation up to this request, are marked for the server's cache.
"""

import re
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import msgspec

from buddy.models.catalog import without_date
from buddy.models.contract import Piece, Prompt, ToolSpec
from buddy.models.encoded import EncodedItems, EncodedValue, join_pieces
from buddy.models.exchange import Exchange, LeftOut
from buddy.models.message_items import API, encode_blocks, join_messages
from buddy.models.pictures import Pictures
from buddy.models.wire import Wire
from buddy.steps import Steps

if TYPE_CHECKING:
    from buddy.models.credentials import Credentials
    from buddy.models.http.pool import Pool
    from buddy.models.message_fold import MessageFold

_PATH = "/messages"
# The API requires a limit. Each is accepted by the models of its time; the lower one also helps when context is short.
_MOST, _LEAST = 32_000, 4096
# What may be left out if a server refuses it by name. An error that names several means the first.
_OPTIONAL = (
    "signature",
    "max_tokens",
    "cache_control",
    "display",
    "adaptive",
    "thinking",
    "temperature",
    "top_p",
    "stream",
)
_BUDGETED = re.compile(r"claude-(?:3[-.]7-\w+|(?:opus|sonnet|haiku)-4(?:[-.][0-5])?|4(?:[-.][0-5])?-\w+)(?:-latest)?")
_UNTHINKING = re.compile(r"claude-(?:3|2|instant)")


class Anthropic:
    """A provider behind any server that speaks Anthropic Messages.

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
        self._exchange = Exchange(self._wire, _PATH, _OPTIONAL, linger, passing={"max_tokens"}, pictures=self._pictures)
        self._system = EncodedValue[str](_encode)
        self._keeps_thinking = True
        self._items = EncodedItems(
            lambda item: encode_blocks(item, self._wire.origin, self._pictures, keeps_thinking=self._keeps_thinking)
        )

    def stream(self, prompt: Prompt) -> AsyncIterator[Piece]:
        return self._exchange.stream(
            lambda left_out: self._body(prompt, left_out), self._fold, lambda: self._items.call_ids(prompt.items)
        )

    async def close(self) -> None:
        await self._wire.close()

    def _fold(self) -> "MessageFold":
        from buddy.models.message_fold import MessageFold

        return MessageFold(self._wire.origin)

    def _body(self, prompt: Prompt, left_out: LeftOut) -> Steps[list[bytes]]:
        is_cached = "cache_control" not in left_out
        messages = yield from self._messages(prompt, left_out, is_marked=is_cached)
        limit = _LEAST if "max_tokens" in left_out else _MOST
        parts = [b'{"model":', _encode(self.model), b',"max_tokens":%d,"messages":[' % limit, *messages, b"]"]
        if prompt.system:
            mark = b',"cache_control":{"type":"ephemeral"}' if is_cached else b""
            parts += [b',"system":[{"type":"text","text":', self._system.of(prompt.system), mark, b"}]"]
        if prompt.tools:
            parts += [b',"tools":', _shared_tools.of(prompt.tools)]
        for name, value in self._settings(prompt, limit, left_out).items():
            parts.append(b',"%s":%s' % (name.encode(), _encode(value)))
        return [*parts, b"}"]

    def _messages(self, prompt: Prompt, left_out: LeftOut, *, is_marked: bool) -> Steps[list[bytes]]:
        keeps_thinking = "signature" not in left_out
        if self._pictures.use(prompt) or keeps_thinking != self._keeps_thinking:
            self._keeps_thinking = keeps_thinking
            self._items.forget()
        encoded = yield from self._items.of(prompt.items)
        return join_pieces(join_messages(prompt.items, encoded, is_marked=is_marked))

    def _settings(self, prompt: Prompt, limit: int, left_out: LeftOut) -> dict[str, Any]:
        """A model that thinks takes no temperature, so one that is configured turns thinking off."""
        settings: dict[str, Any] = {}
        if prompt.temperature is not None and "temperature" not in left_out:
            settings["temperature"] = min(prompt.temperature, 1.0)
        if prompt.top_p is not None and "top_p" not in left_out:
            settings["top_p"] = prompt.top_p
        if not settings and "thinking" not in left_out and (thinking := _thinking(self.model, limit, left_out)):
            settings["thinking"] = thinking
        if "stream" not in left_out:
            settings["stream"] = True
        return settings


def _thinking(model: str, limit: int, left_out: LeftOut) -> dict[str, Any]:
    """How Claude is asked to think; other models behind this API think if they like."""
    name = without_date(model.lower().rpartition("/")[2])
    if not name.startswith("claude") or (_UNTHINKING.match(name) and not _BUDGETED.fullmatch(name)):
        return {}
    if "adaptive" in left_out or _BUDGETED.fullmatch(name):
        return {"type": "enabled", "budget_tokens": limit // 2}
    shown = {} if "display" in left_out else {"display": "summarized"}
    return {"type": "adaptive", **shown}


def _tools(tools: tuple[ToolSpec, ...]) -> bytes:
    return _encode([_tool(tool) for tool in tools])


def _tool(tool: ToolSpec) -> dict[str, object]:
    return {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}


_encode = msgspec.json.Encoder().encode

# All sessions of a kind offer the same tools.
_shared_tools = EncodedValue(_tools)
