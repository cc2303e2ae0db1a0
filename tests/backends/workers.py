"""Models for long tests: they act on what they are sent, and record it."""

from collections.abc import AsyncIterator, Callable

from buddy.errors import ProviderError
from buddy.models.contract import Item, Piece, Prompt, Reply, TokenUsage, UserItem
from buddy.models.tokens import count
from buddy.protocol.shapes import ToolCallItem

Act = Callable[[int], tuple[ToolCallItem, ...]]


class Worker:
    """Acts turn by turn until there is nothing left to do; writes a summary when asked without tools."""

    profile = "test"
    model = "worker"
    api = "scripted"

    def __init__(
        self, act: Act, *, limit: int = 16_384, summary: str | None = "it went on", usage: bool = True
    ) -> None:
        self.context_limit = limit
        self.prompts: list[Prompt] = []
        self.summaries: list[Prompt] = []
        self._act = act
        self._summary = summary
        self._tells_usage = usage

    async def stream(self, prompt: Prompt) -> AsyncIterator[Piece]:
        if not prompt.tools:
            self.summaries.append(prompt)
            if self._summary is None:
                raise ProviderError("no summaries today", retryable=False)
            yield Reply(self._summary, usage=TokenUsage(100, 10))
            return
        self.prompts.append(prompt)
        calls = self._act(len(self.prompts))
        usage = TokenUsage(_size(prompt), 20) if self._tells_usage else None
        yield Reply("" if calls else "done", calls, "tool_calls" if calls else "stop", usage=usage)

    async def close(self) -> None:
        """Nothing to close."""


class PaidWorker(Worker):
    """One dollar per thousand tokens."""

    async def cost_of(self, usage: TokenUsage) -> float | None:
        return (usage.input_tokens + usage.output_tokens) / 1000


class UnlistedWorker(Worker):
    """Its window is assumed until its server says it, if the server knows it."""

    def __init__(self, act: Act, server: int | None) -> None:
        super().__init__(act, limit=8192)
        self.is_window_assumed = True
        self._server = server

    async def learn(self) -> None:
        if self._server is not None:
            self.keep_window(self._server)

    def keep_window(self, limit: int) -> None:
        self.context_limit, self.is_window_assumed = limit, False


def texts(items: list[Item] | tuple[Item, ...]) -> list[str]:
    """The user's messages in the prompt."""
    return [item.text for item in items if isinstance(item, UserItem)]


def _size(prompt: Prompt) -> int:
    return count(prompt.system) + sum(count(item.text) for item in prompt.items)
