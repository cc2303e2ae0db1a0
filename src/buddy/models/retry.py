"""A provider that retries another one when a failure may be temporary.

Invariants:
- a permanent failure, and the last of `attempts`, is raised unchanged;
- every wait is announced by `Retrying` and bounded, whatever the server asks for;
- if pieces were yielded before the failure, `Restart` voids them before the next attempt.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable

from buddy.errors import ProviderError
from buddy.models.contract import (
    Piece,
    Priced,
    Prompt,
    Provider,
    Restart,
    Retrying,
    TextDelta,
    ThinkingDelta,
    TokenUsage,
)

BASE_WAIT = 0.25
MAX_WAIT = 8.0
MAX_ASKED_WAIT = 60.0


def _random() -> float:
    """From 0 to 1; `random` takes long to import."""
    return int.from_bytes(os.urandom(4)) / 2**32


class RetryingProvider:
    """Wraps a provider and is one."""

    def __init__(
        self,
        provider: Provider,
        attempts: int = 4,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        rng: Callable[[], float] = _random,
    ) -> None:
        self.profile = provider.profile
        self.model = provider.model
        self.api = provider.api
        self.context_limit = provider.context_limit
        self._provider = provider
        self._attempts = attempts
        self._sleep = sleep
        self._rng = rng

    async def stream(self, prompt: Prompt) -> AsyncIterator[Piece]:
        attempt = 1
        while True:
            begun = False
            try:
                pieces = self._provider.stream(prompt)
                try:
                    async for piece in pieces:
                        begun = begun or isinstance(piece, TextDelta | ThinkingDelta)
                        yield piece
                finally:
                    await end_stream(pieces)
            except ProviderError as error:
                if not error.retryable or attempt >= self._attempts:
                    raise
                failure = error
            else:
                return
            wait = self._wait(attempt, failure)
            attempt += 1
            yield Retrying(attempt, str(failure), round(wait * 1000))
            await self._sleep(wait)
            if begun:
                yield Restart(str(failure))

    async def cost_of(self, usage: TokenUsage) -> float | None:
        return await self._provider.cost_of(usage) if isinstance(self._provider, Priced) else None

    async def close(self) -> None:
        await self._provider.close()

    def _wait(self, attempt: int, failure: ProviderError) -> float:
        # Half of the wait is fixed, half is random, so that clients that failed together do not retry together.
        backoff = min(MAX_WAIT, BASE_WAIT * 2 ** (attempt - 1)) * (0.5 + self._rng() / 2)
        return max(backoff, min(MAX_ASKED_WAIT, failure.retry_after or 0.0))


async def end_stream(pieces: AsyncIterator[Piece]) -> None:
    """End an inner stream with the outer one, not when the garbage collector runs."""
    if isinstance(pieces, AsyncGenerator):
        await pieces.aclose()
