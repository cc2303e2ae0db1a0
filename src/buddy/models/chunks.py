"""The pieces of a Chat Completions answer that we read, and nothing else of it.

What always holds: whatever JSON a server sends, reading it gives a `Chunk`; a field of an unexpected type counts as
missing, alone, without the fields beside it. Only what is not JSON at all raises `ProviderError`.
"""

import re
from typing import TypeVar, get_args, get_origin

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from buddy.errors import ProviderError
from buddy.models.contract import TokenUsage


class Part(Struct, frozen=True):
    """One part of a content that is a list."""

    text: str | None = None


class FunctionDelta(Struct, frozen=True):
    name: str | None = None
    arguments: str | dict[str, object] | None = None


class CallDelta(Struct, frozen=True):
    index: int | None = None
    id: str | None = None
    function: FunctionDelta | None = None


class Delta(Struct, frozen=True):
    content: str | tuple[Part, ...] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_details: list[object] | None = None
    refusal: str | None = None
    tool_calls: tuple[CallDelta, ...] | None = None

    def text(self) -> str:
        """What is said; a refusal is said too."""
        if isinstance(self.content, tuple):
            return "".join(part.text or "" for part in self.content)
        return self.content or self.refusal or ""


class Choice(Struct, frozen=True):
    delta: Delta | None = None
    message: Delta | None = None
    finish_reason: str | None = None


class TokenDetails(Struct, frozen=True):
    cached_tokens: int | None = None


class Usage(Struct, frozen=True):
    """Both families of names; `cost` is in USD where a server gives it."""

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


def read_chunk(data: bytes) -> Chunk:
    """Read one chunk, or a whole answer that came without streaming."""
    try:
        return _chunks.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _salvage(_repaired(data), Chunk) or Chunk()


def read_fault(body: bytes) -> Fault | None:
    """What the body of a refused request says: `{"error": …}` in its forms, or the fault itself."""
    try:
        chunk = read_chunk(body)
    except ProviderError:
        return None
    if isinstance(chunk.error, str):
        return Fault(message=chunk.error)
    return chunk.error or _salvage(body, Fault)


AnyStruct = TypeVar("AnyStruct", bound=Struct)


def _salvage(raw: bytes | Raw, shape: type[AnyStruct]) -> AnyStruct | None:
    """Keep every field that has its type; None where there is not even an object."""
    try:
        parts = msgspec.json.decode(raw, type=dict[str, Raw])
    except msgspec.DecodeError:
        return None
    good: dict[str, object] = {}
    for field in msgspec.structs.fields(shape):
        value = _field(parts[field.encode_name], field.type) if field.encode_name in parts else UNSET
        if not isinstance(value, UnsetType):
            good[field.name] = value
    return msgspec.convert(good, shape, from_attributes=True)


def _field(raw: Raw, kind: object) -> object:
    """The value as its type wants it, else what can be saved of it, else UNSET."""
    try:
        return msgspec.json.decode(raw, type=kind)
    except msgspec.DecodeError:
        pass
    for option in get_args(kind):
        saved = _option(raw, option)
        if not isinstance(saved, UnsetType):
            return saved
    return UNSET


def _option(raw: Raw, option: object) -> object:
    if isinstance(option, type) and issubclass(option, Struct):
        saved = _salvage(raw, option)
        return UNSET if saved is None else saved
    if get_origin(option) is not tuple:
        return UNSET
    try:
        entries = msgspec.json.decode(raw, type=tuple[Raw, ...])
    except msgspec.DecodeError:
        return UNSET
    saved_entries = (_option(entry, get_args(option)[0]) for entry in entries)
    return tuple(entry for entry in saved_entries if not isinstance(entry, UnsetType))


# Servers that escape all non-ASCII may cut an emoji between two chunks: each half is an escape without its partner.
_LONE_SURROGATE = re.compile(
    r"\\ud[89ab][0-9a-f]{2}(?!\\ud[c-f][0-9a-f]{2})|(?<!\\ud[89ab]..)\\ud[c-f][0-9a-f]{2}", re.IGNORECASE
)


def _repaired(data: bytes) -> bytes:
    text = _LONE_SURROGATE.sub(r"\\ufffd", data.decode("utf-8", "replace"))
    repaired = text.encode()
    try:
        msgspec.json.decode(repaired)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ProviderError(f"the server sent what is not JSON: {text[:200]!r}", retryable=True) from error
    return repaired


def _count(number: float | None) -> int:
    return max(0, int(number)) if number is not None and abs(number) < 2**53 else 0


_chunks = msgspec.json.Decoder(Chunk)
