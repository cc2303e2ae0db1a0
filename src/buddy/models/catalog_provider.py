"""A provider that knows its model: its context window, and what each reply costs.

Invariants:
- the profile takes precedence, then the server's own list, then the shipped table, then what the session knew before,
  then 8,192 tokens with a notice;
- the server is queried while the first reply arrives, or before a prompt that may not fit, so a run is delayed by at
  most three seconds, and mostly not at all;
- a cost that the server reports is kept; without a known price the cost stays unknown.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

from msgspec.structs import replace

from buddy.config.resolve import FROM_ENV, UNKNOWN_CONTEXT, Resolved
from buddy.models.catalog import Facts, configured_facts, known_offline
from buddy.models.contract import Notice, Piece, Prompt, Provider, Reply, TokenUsage
from buddy.models.listing import Listing
from buddy.models.retry import end_stream


class CatalogProvider:
    """The outermost wrapper of a provider, so that everyone sees the `context_limit` that it learns."""

    def __init__(self, provider: Provider, resolved: Resolved, ask: Callable[[], Awaitable[Listing]]) -> None:
        self.profile = provider.profile
        self.model = provider.model
        self.api = provider.api
        self._provider = provider
        self._resolved = resolved
        self._ask = ask
        self._facts = known_offline(resolved)
        self.context_limit = self._facts.context_window or UNKNOWN_CONTEXT
        self._is_known = configured_facts(resolved).is_complete
        self._is_notified = False

    async def learn(self) -> None:
        """Query the server, once."""
        if self._is_known:
            return
        server = (await self._ask()).facts(self.model)
        if self._resolved.auth == "login":
            server = Facts(server.context_window, vision=server.vision)
        self._facts = configured_facts(self._resolved).or_else(server).or_else(self._facts)
        self.context_limit = self._facts.context_window or UNKNOWN_CONTEXT
        self._is_known = True

    @property
    def is_window_assumed(self) -> bool:
        return self._facts.context_window is None

    def keep_window(self, limit: int) -> None:
        """What was known before, if nobody knows better now."""
        if self.is_window_assumed:
            self._facts = replace(self._facts, context_window=limit)
            self.context_limit = limit

    async def cost_of(self, usage: TokenUsage) -> float | None:
        """What such a call costs; the server is queried for its prices if they are unknown."""
        if self._facts.prices is None:
            await self.learn()
        return None if self._facts.prices is None else self._facts.prices.cost(usage)

    async def stream(self, prompt: Prompt) -> AsyncIterator[Piece]:
        prompt = await self._with_images(prompt) if prompt.images else prompt
        learning = None if self._is_known else asyncio.ensure_future(self.learn())
        pieces = self._provider.stream(prompt)
        try:
            async for piece in pieces:
                if not isinstance(piece, Reply):
                    yield piece
                    continue
                if learning is not None:
                    await learning
                for notice in self._notices():
                    yield notice
                yield self._add_cost(piece)
        finally:
            await end_stream(pieces)
            if learning is not None:
                learning.cancel()
                await asyncio.wait([learning])

    async def _with_images(self, prompt: Prompt) -> Prompt:
        """Without the contents of images if the model is known not to take any; they are described then."""
        if self._facts.vision is None:
            await self.learn()
        return replace(prompt, images={}) if self._facts.vision is False else prompt

    async def close(self) -> None:
        await self._provider.close()

    def _notices(self) -> Iterator[Notice]:
        """That the window is unknown, the first time only."""
        if self.is_window_assumed and not self._is_notified:
            self._is_notified = True
            key = "BUDDY_CONTEXT_LIMIT" if self.profile == FROM_ENV else f"context_limit in [models.{self.profile}]"
            yield Notice(
                "CONTEXT_UNKNOWN",
                f"context window of {self.model!r} unknown; assuming {UNKNOWN_CONTEXT:,} tokens",
                f"set {key}",
            )

    def _add_cost(self, reply: Reply) -> Reply:
        usage, prices = reply.usage, self._facts.prices
        if usage is None or usage.cost_usd is not None or prices is None:
            return reply
        return replace(reply, usage=replace(usage, cost_usd=prices.cost(usage)))
