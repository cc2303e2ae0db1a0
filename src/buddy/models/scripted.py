"""The scripted model: a provider that plays a script, without a network.

Invariants: the reply depends on the prompt alone, so a run that was killed continues where it was. The index of the
reply is the number of assistant items in the prompt; if the last user message matches a section, it is the number of
assistant items after that message, within the section. The first section that matches counts.
"""

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from buddy.errors import ProviderError
from buddy.models.contract import (
    AssistantItem,
    Item,
    Piece,
    Prompt,
    Reply,
    TextDelta,
    ThinkingDelta,
    TokenUsage,
    UserItem,
)
from buddy.models.script import Script, ScriptedReply
from buddy.protocol.shapes import ToolCallItem

if TYPE_CHECKING:
    from buddy.models.catalog import Prices

_WORD = re.compile(r"\S+\s*|\s+")
_CHARS_PER_TOKEN = 4


class Scripted:
    """Plays a script; `sleep` waits for a reply's delay."""

    api = "scripted"

    def __init__(
        self,
        profile: str,
        script: Script,
        *,
        model: str = "scripted",
        context_limit: int = 128_000,
        prices: "Prices | None" = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.profile = profile
        self.model = model
        self.context_limit = context_limit
        self._script = script
        self._prices = prices
        self._sleep = sleep
        self._failures: Counter[ScriptedKey] = Counter()

    @classmethod
    def echo(cls, profile: str = "echo", *, prices: "Prices | None" = None) -> "Scripted":
        """A model that repeats what the user said."""
        return cls(profile, Script(echo=True), model="echo", prices=prices)

    async def stream(self, prompt: Prompt) -> AsyncIterator[Piece]:
        key, reply = self._choose(prompt.items)
        if reply.thinking:
            yield ThinkingDelta(reply.thinking)
        for word in _WORD.findall(reply.text):
            if reply.delay:
                await self._sleep(reply.delay)
            yield TextDelta(word)
        self._fail(key, reply)
        yield _complete(reply, self._priced(reply.usage or _estimate(reply, prompt)), prompt)

    async def cost_of(self, usage: TokenUsage) -> float | None:
        """Known if its profile has prices."""
        return self._priced(usage).cost_usd

    def _priced(self, usage: TokenUsage) -> TokenUsage:
        """With its cost, unless the script sets one."""
        if usage.cost_usd is not None or self._prices is None:
            return usage
        return replace(usage, cost_usd=self._prices.cost(usage))

    async def close(self) -> None:
        """Nothing to close."""

    def _choose(self, items: Sequence[Item]) -> "tuple[ScriptedKey, ScriptedReply]":
        at = next((at for at in range(len(items) - 1, -1, -1) if isinstance(items[at], UserItem)), -1)
        user = items[at] if at >= 0 else None
        said = user.text if isinstance(user, UserItem) else ""
        section, replies, since = -1, self._script.replies, items
        for number, candidate in enumerate(self._script.on):
            if user is not None and re.search(candidate.match, said):
                section, replies, since = number, candidate.replies, items[at + 1 :]
                break
        index = _turns(since)
        if index < len(replies):
            return (section, index), replies[index]
        return (section, index), ScriptedReply(text=said if self._script.echo else "done")

    def _fail(self, key: "ScriptedKey", reply: ScriptedReply) -> None:
        error = reply.error
        if error is None or (error.times is not None and self._failures[key] >= error.times):
            return
        self._failures[key] += 1
        raise ProviderError(error.message, retryable=error.retryable)


ScriptedKey = tuple[int, int]


def _turns(items: Sequence[Item]) -> int:
    return sum(isinstance(item, AssistantItem) for item in items)


def _complete(reply: ScriptedReply, usage: TokenUsage, prompt: Prompt) -> Reply:
    turn = _turns(prompt.items)
    calls = tuple(
        ToolCallItem(f"call_{turn}_{number}", call.name, call.text()) for number, call in enumerate(reply.calls)
    )
    if reply.truncated:
        calls = ()
    finish = reply.finish or ("length" if reply.truncated else "tool_calls" if calls else "stop")
    return Reply(reply.text, calls, finish, reply.truncated, usage)


def _estimate(reply: ScriptedReply, prompt: Prompt) -> TokenUsage:
    read = len(prompt.system) + sum(map(_length, prompt.items))
    written = len(reply.text) + len(reply.thinking) + sum(len(call.name + call.text()) for call in reply.calls)
    return TokenUsage(read // _CHARS_PER_TOKEN, written // _CHARS_PER_TOKEN)


def _length(item: Item) -> int:
    calls = item.calls if isinstance(item, AssistantItem) else ()
    return len(item.text) + sum(len(call.name) + len(call.arguments) for call in calls)
