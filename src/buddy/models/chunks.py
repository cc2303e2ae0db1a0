"""The parts of a Chat Completions response that Buddy reads.

Invariants: any JSON that a server sends becomes a `Chunk`; only text that is not JSON raises `ProviderError`.
"""

from msgspec import Raw, Struct, field

from buddy.errors import ProviderError
from buddy.models.contract import TokenUsage
from buddy.models.lenient import REST, Lenient, salvage
from buddy.models.long_events import EventData, LongEvent


class Part(Struct, frozen=True):
    """One part of a content that is a list."""

    text: str | None = None


class FunctionDelta(Struct, frozen=True):
    name: str | None = None
    arguments: str | dict[str, object] | None = None


class CallDelta(Struct, frozen=True, forbid_unknown_fields=True):
    index: int | None = None
    id: str | None = None
    function: FunctionDelta | None = None
    type: Raw = Raw()
    rest: dict[str, object] | None = field(name=REST, default=None)


class Delta(Struct, frozen=True, forbid_unknown_fields=True):
    """A part of a message. The last fields are ignored; all other fields of a server are in `rest`."""

    content: str | tuple[Part, ...] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_details: list[object] | None = None
    refusal: str | None = None
    tool_calls: tuple[CallDelta, ...] | None = None
    rest: dict[str, object] | None = field(name=REST, default=None)
    role: Raw = Raw()
    name: Raw = Raw()
    function_call: Raw = Raw()
    audio: Raw = Raw()
    annotations: Raw = Raw()
    channel: Raw = Raw()
    logprobs: Raw = Raw()
    token_ids: Raw = Raw()

    def text(self) -> str:
        """The text; a refusal is text too."""
        if isinstance(self.content, tuple):
            return "".join(part.text or "" for part in self.content)
        return self.content or self.refusal or ""


class Choice(Struct, frozen=True):
    index: object = 0
    delta: Delta | None = None
    message: Delta | None = None
    finish_reason: str | None = None


class TokenDetails(Struct, frozen=True):
    cached_tokens: int | None = None


class Usage(Struct, frozen=True):
    """Both families of names; `cost` is in USD, if the server reports it."""

    prompt_tokens: int | float | None = None
    completion_tokens: int | float | None = None
    input_tokens: int | float | None = None
    output_tokens: int | float | None = None
    prompt_cache_hit_tokens: int | None = None
    prompt_tokens_details: TokenDetails | None = None
    input_tokens_details: TokenDetails | None = None
    cost: float | None = None

    def tokens(self) -> TokenUsage | None:
        used = self.prompt_tokens if self.prompt_tokens is not None else self.input_tokens
        made = self.completion_tokens if self.completion_tokens is not None else self.output_tokens
        if used is None and made is None:
            return None
        details = self.prompt_tokens_details or self.input_tokens_details
        cached = details.cached_tokens if details else None
        return TokenUsage(
            _count(used), _count(made), cached if cached is not None else self.prompt_cache_hit_tokens, self.cost
        )


class Fault(Struct, frozen=True):
    """What a server says went wrong, under any of the names in use."""

    message: str | None = None
    code: int | str | None = None
    type: str | None = None
    status: int | str | None = None
    detail: str | None = None


class Chunk(Struct, frozen=True):
    choices: tuple[Choice, ...] | None = None
    usage: Usage | None = None
    error: Fault | str | None = None
    object: str | None = None


def read_chunk(data: EventData) -> Chunk:
    """Read one chunk, or a complete response without streaming."""
    return _chunks.read(data.data, data) if isinstance(data, LongEvent) else _chunks.read(data)


def read_fault(data: EventData) -> Fault | None:
    """The error in the body of a rejected request: `{"error": …}` in its forms, or the fault itself."""
    body = data.source if isinstance(data, LongEvent) else data
    try:
        chunk = read_chunk(body)
    except ProviderError:
        return None
    if isinstance(chunk.error, str):
        return Fault(message=chunk.error)
    return chunk.error or salvage(body, Fault)


def _count(number: float | None) -> int:
    return max(0, int(number)) if number is not None and abs(number) < 2**53 else 0


_chunks = Lenient(Chunk)
