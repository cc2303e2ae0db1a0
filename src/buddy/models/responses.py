"""The Responses wire: `POST {base_url}/responses`, streamed, with nothing stored at the server.

Invariants:
- the complete conversation is sent with every request: an item of the history is encoded once, and the body of a
  request is those bytes joined;
- reasoning is returned encrypted, as it arrived;
- with a login the request has the form that its server requires: streamed, unstored, without sampling settings.
"""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import msgspec

from buddy.models.contract import Piece, Prompt, ToolSpec
from buddy.models.encoded import EncodedItems, EncodedValue, join_items
from buddy.models.exchange import Exchange, LeftOut
from buddy.models.pictures import Pictures
from buddy.models.response_items import encode_item
from buddy.models.wire import Wire
from buddy.steps import Steps

if TYPE_CHECKING:
    from buddy.models.credentials import Credentials
    from buddy.models.http.pool import Pool
    from buddy.models.response_fold import ResponseFold

_PATH = "/responses"


class Responses:
    """A provider behind any server that speaks Responses; `login` is for an account instead of an API key.

    `idle_timeout` is how long it waits for the next byte, `linger` for the end of a body whose reply is complete.
    """

    api = "responses"

    def __init__(
        self,
        profile: str,
        base_url: str,
        api_key: "str | Credentials",
        model: str,
        context_limit: int,
        *,
        login: bool = False,
        idle_timeout: float = 120.0,
        linger: float = 0.2,
        pool: "Pool | None" = None,
    ) -> None:
        self.profile = profile
        self.model = model
        self.context_limit = context_limit
        self._login = login
        self._wire = Wire(base_url, api_key, api=self.api, idle_timeout=idle_timeout, pool=pool)
        self._pictures = Pictures()
        optional = () if login else ("include", "store", "stream")
        self._exchange = Exchange(self._wire, _PATH, optional, linger, pictures=self._pictures)
        self._system = EncodedValue[str](_encode)
        self._items = EncodedItems(lambda item: encode_item(item, self._wire.origin, self._pictures))

    def stream(self, prompt: Prompt) -> AsyncIterator[Piece]:
        return self._exchange.stream(
            lambda left_out: self._body(prompt, left_out), self._fold, lambda: self._items.call_ids(prompt.items)
        )

    async def close(self) -> None:
        await self._wire.close()

    def _fold(self) -> "ResponseFold":
        from buddy.models.response_fold import ResponseFold

        return ResponseFold(self._wire.origin)

    def _body(self, prompt: Prompt, left_out: LeftOut) -> Steps[list[bytes]]:
        if self._pictures.use(prompt):
            self._items.forget()
        items = join_items(list(filter(None, (yield from self._items.of(prompt.items)))))
        parts = [b'{"model":', _encode(self.model), b',"input":[', *items, b"]"]
        if prompt.system or self._login:
            parts += [b',"instructions":', self._system.of(prompt.system)]
        if prompt.tools:
            parts += [b',"tools":', _shared_tools.of(prompt.tools)]
        if prompt.temperature is not None and not self._login:
            parts += [b',"temperature":', _encode(prompt.temperature)]
        if prompt.top_p is not None and not self._login:
            parts += [b',"top_p":', _encode(prompt.top_p)]
        parts += [text for name, text in _OPTIONS if name not in left_out]
        return [*parts, b"}"]


_OPTIONS = (
    ("store", b',"store":false'),
    ("include", b',"include":["reasoning.encrypted_content"]'),
    ("stream", b',"stream":true'),
)


def _tools(tools: tuple[ToolSpec, ...]) -> bytes:
    return _encode([_tool(tool) for tool in tools])


def _tool(tool: ToolSpec) -> dict[str, object]:
    # Strict is the default of this API, and would make every optional parameter of a tool a required one.
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
        "strict": False,
    }


_encode = msgspec.json.Encoder().encode

# All sessions of a kind offer the same tools.
_shared_tools = EncodedValue(_tools)
