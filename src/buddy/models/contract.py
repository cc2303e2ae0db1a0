"""What the loop needs from a model: a prompt in, one stream of pieces out, the last of which is the complete reply.

Invariants:
- every stream ends with exactly one `Reply`, or raises `ProviderError`;
- pieces before a `Restart` are void;
- a truncated reply says so (`truncated`) and has no tool calls.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from msgspec import Struct

from buddy.capabilities import has
from buddy.errors import ProviderError
from buddy.protocol.shapes import ToolCallItem

CUT_OFF = "cut"
"""`finish` of a reply whose stream broke off."""


class Image(Struct, frozen=True):
    """An image in a history; the prompt has its content, by its blob."""

    blob: str
    media_type: str
    name: str = ""
    width: int = 0
    height: int = 0

    def describe(self) -> str:
        """The image in words, for one who cannot see it."""
        kind = self.media_type.removeprefix("image/").upper()
        size = f", {self.width}x{self.height}" if self.width else ""
        return f"image {self.name!r} ({kind}{size})" if self.name else f"image ({kind}{size})"


class UserItem(Struct, frozen=True):
    text: str
    images: tuple[Image, ...] = ()


class AssistantItem(Struct, frozen=True):
    text: str
    calls: tuple[ToolCallItem, ...] = ()
    opaque: dict[str, Any] | None = None


class ToolItem(Struct, frozen=True):
    call_id: str
    text: str
    images: tuple[Image, ...] = ()


Item = UserItem | AssistantItem | ToolItem


class ToolSpec(Struct, frozen=True):
    """A tool as the model sees it; `parameters` is its JSON Schema."""

    name: str
    description: str
    parameters: dict[str, Any]


class Prompt(Struct, frozen=True):
    """The input of one model call. `items` only grows between turns, so wires may cache what they encoded. `images` has
    the contents of images by their blobs, in base64; an image without one is only described."""

    system: str
    items: Sequence[Item]
    tools: tuple[ToolSpec, ...] = ()
    temperature: float | None = None
    top_p: float | None = None
    images: Mapping[str, bytes] = {}


class TokenUsage(Struct, frozen=True):
    """What a call took. Of the input tokens some were read from the server's cache, and others written to it."""

    input_tokens: int
    output_tokens: int
    cached_tokens: int | None = None
    cost_usd: float | None = None
    cache_write_tokens: int | None = None


class TextDelta(Struct, frozen=True, gc=False):
    text: str


class ThinkingDelta(Struct, frozen=True, gc=False):
    text: str


class Restart(Struct, frozen=True):
    """All pieces so far are void; the reply starts again."""

    reason: str


class Retrying(Struct, frozen=True):
    """The call failed and is repeated after `wait_ms`; `attempt` is the number of the next one."""

    attempt: int
    reason: str
    wait_ms: int


class Notice(Struct, frozen=True):
    """Something the person should know, reported once; `detail` says what to do."""

    code: str
    message: str
    detail: str = ""


class Reply(Struct, frozen=True):
    text: str
    calls: tuple[ToolCallItem, ...] = ()
    finish: str = "stop"
    truncated: bool = False
    usage: TokenUsage | None = None
    opaque: dict[str, Any] | None = None


Piece = TextDelta | ThinkingDelta | Restart | Retrying | Notice | Reply


class EmptyResponse(ProviderError):
    """The server answered, and sent nothing."""

    def __init__(self) -> None:
        super().__init__("empty response", retryable=True)


class Provider(Protocol):
    """One model behind one API. `profile`, `model` and `api` are for the record; `context_limit` is in tokens."""

    profile: str
    model: str
    api: str
    context_limit: int

    def stream(self, prompt: Prompt) -> AsyncIterator[Piece]: ...

    async def close(self) -> None: ...


@runtime_checkable
class Priced(Protocol):
    """A provider that can say what a call costs before it is made; None if the price is unknown."""

    async def cost_of(self, usage: TokenUsage) -> float | None: ...


@runtime_checkable
class Windowed(Protocol):
    """A provider that can find out its context window. While `is_window_assumed`, nobody has said how large it is."""

    @property
    def is_window_assumed(self) -> bool: ...

    async def learn(self) -> None: ...

    def keep_window(self, limit: int) -> None: ...


def images_in(items: Sequence[Item]) -> list[Image]:
    return [image for item in items if not isinstance(item, AssistantItem) for image in item.images]


def in_words(item: UserItem | ToolItem) -> str:
    """Its text, and its images as they can be described."""
    return "\n".join((item.text, *(f"[{image.describe()}]" for image in item.images)))


def is_window_assumed(provider: Provider) -> bool:
    return has(provider, Windowed) and provider.is_window_assumed
