"""The parts of a Gemini response that Buddy reads: a chunk of a stream, or a complete response.

Invariants: any JSON that a server sends becomes a `Generated`; only text that is not JSON raises `ProviderError`.
"""

from msgspec import Raw, Struct, field

from buddy.models.chunks import Fault, Usage
from buddy.models.contract import TokenUsage
from buddy.models.lenient import Lenient
from buddy.models.long_events import EventData, LongEvent


class GeminiUsage(Usage, frozen=True):
    """Thoughts are counted apart from the rest of the output; the prompt includes what was read from the cache."""

    prompt_count: int | float | None = field(name="promptTokenCount", default=None)
    output_count: int | float | None = field(name="candidatesTokenCount", default=None)
    thought_count: int | float | None = field(name="thoughtsTokenCount", default=None)
    cached_count: int | None = field(name="cachedContentTokenCount", default=None)

    def tokens(self) -> TokenUsage | None:
        if self.prompt_count is None and self.output_count is None:
            return super().tokens()
        made = (self.output_count or 0) + (self.thought_count or 0)
        found = Usage(prompt_tokens=self.prompt_count, completion_tokens=made, cost=self.cost).tokens()
        return found and TokenUsage(found.input_tokens, found.output_tokens, self.cached_count, found.cost_usd)


class FunctionCall(Struct, frozen=True):
    """`args` are as the server sent them; with `will_continue` they are not complete."""

    id: str | None = None
    name: str | None = None
    args: Raw = Raw()
    will_continue: bool = field(name="willContinue", default=False)


class Part(Struct, frozen=True):
    text: str | None = None
    thought: bool | None = None
    signature: str | None = field(name="thoughtSignature", default=None)
    call: FunctionCall | None = field(name="functionCall", default=None)


class Content(Struct, frozen=True):
    parts: tuple[Part, ...] | None = None


class Candidate(Struct, frozen=True):
    index: int | None = None
    content: Content | None = None
    finish: str | None = field(name="finishReason", default=None)
    message: str | None = field(name="finishMessage", default=None)


class Feedback(Struct, frozen=True):
    reason: str | None = field(name="blockReason", default=None)


class Generated(Struct, frozen=True):
    candidates: tuple[Candidate, ...] | None = None
    usage: GeminiUsage | None = field(name="usageMetadata", default=None)
    feedback: Feedback | None = field(name="promptFeedback", default=None)
    error: Fault | str | None = None
    object: str | None = None


def read_generated(data: EventData) -> Generated:
    if isinstance(data, LongEvent):
        return _generated.read(data.data, data)
    return _generated.read(data) if data.strip() else Generated()


_generated = Lenient(Generated)
