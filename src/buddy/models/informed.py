"""A provider that knows its model: its context window, and what each reply costs.

What always holds:
- the profile's word counts most, then the server's own list, then the shipped table, then 8,192 tokens with a notice;
- the server is asked while the first reply is on its way, so that a run is held up for three seconds at most, and
  mostly not at all;
- the server's own figure for a cost stands; where nobody knows the price, the cost stays unknown.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

from msgspec.structs import replace

from buddy.config.resolve import UNKNOWN_CONTEXT, Resolved
from buddy.models.catalog import Facts, configured, known_offline
from buddy.models.contract import Notice, Piece, Prompt, Provider, Reply, TokenUsage
from buddy.models.listing import Listing
from buddy.models.retry import end_stream


class Informed:
    """The outermost wrapper of a provider: what it learns must be seen by who asks for `context_limit`."""

    def __init__(self, provider: Provider, resolved: Resolved, ask: Callable[[], Awaitable[Listing]]) -> None:
        self.profile = provider.profile
        self.model = provider.model
        self.api = provider.api
        self._provider = provider
        self._resolved = resolved
        self._ask = ask
        self._facts = known_offline(resolved)
        self.context_limit = self._facts.context_window or UNKNOWN_CONTEXT
        self._is_settled = configured(resolved).is_whole
        self._is_told = False

    async def learn(self) -> None:
        """Ask the server, once."""
        if self._is_settled:
            return
        server = (await self._ask()).facts(self.model)
        if self._resolved.auth == "login":
            server = Facts(server.context_window)
        self._facts = configured(self._resolved).or_else(server).or_else(self._facts)
        self.context_limit = self._facts.context_window or UNKNOWN_CONTEXT
        self._is_settled = True

    async def cost_of(self, usage: TokenUsage) -> float | None:
        """What such a call costs; the server is asked for its prices where nothing else tells."""
        if self._facts.prices is None:
            await self.learn()
        return None if self._facts.prices is None else self._facts.prices.cost(usage)

    async def stream(self, prompt: Prompt) -> AsyncIterator[Piece]:
        learning = None if self._is_settled else asyncio.ensure_future(self.learn())
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
                yield self._priced(piece)
        finally:
            await end_stream(pieces)
            if learning is not None:
                learning.cancel()
                await asyncio.wait([learning])

    async def close(self) -> None:
        await self._provider.close()

    def _notices(self) -> Iterator[Notice]:
        """That the window is not known, the first time it is found out."""
        if self._facts.context_window is None and not self._is_told:
            self._is_told = True
            yield Notice(
                "CONTEXT_UNKNOWN",
                f"how much {self.model!r} can read is not known; {UNKNOWN_CONTEXT} tokens are assumed",
                f"set context_limit in [models.{self.profile}]",
            )

    def _priced(self, reply: Reply) -> Reply:
        usage, prices = reply.usage, self._facts.prices
        if usage is None or usage.cost_usd is not None or prices is None:
            return reply
        return replace(reply, usage=replace(usage, cost_usd=prices.cost(usage)))
