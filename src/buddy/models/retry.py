"""A provider that retries another one when a failure may be temporary.

Invariants:
- a permanent failure ends the call at once; any other is retried at least `ATTEMPTS` times, and for as long as the
  endpoint deserves patience: minutes if it has replied before, seconds if it never has;
- every wait is announced by `Retrying` and bounded, whatever the server asks for;
- if pieces were yielded before the failure, `Restart` voids them before the next attempt;
- a reply that was cut off is requested again; if that never succeeds, its text is kept, marked as truncated.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable

from buddy.capabilities import has
from buddy.errors import ProviderError
from buddy.models.contract import (
    CUT_OFF,
    Piece,
    Priced,
    Prompt,
    Provider,
    Reply,
    Restart,
    Retrying,
    TextDelta,
    ThinkingDelta,
    TokenUsage,
)

ATTEMPTS = 4
BASE_WAIT = 0.25
MAX_WAIT = 8.0
MAX_ASKED_WAIT = 60.0
NEW_ENDPOINT = 10.0
KNOWN_ENDPOINT = 300.0


def _random() -> float:
    """From 0 to 1; `random` takes long to import."""
    return int.from_bytes(os.urandom(4)) / 2**32


def _loop_time() -> float:
    return asyncio.get_running_loop().time()


_PIECES = frozenset({TextDelta, ThinkingDelta})


class Patience:
    """How many seconds the failures of one endpoint are retried; shared by everyone who calls it."""

    def __init__(self, configured: float | None = None) -> None:
        self._configured = configured
        self.has_replied = False

    @property
    def seconds(self) -> float:
        if self._configured is not None:
            return self._configured
        return KNOWN_ENDPOINT if self.has_replied else NEW_ENDPOINT


class _CutOff(ProviderError):
    def __init__(self, reply: Reply) -> None:
        super().__init__("the connection dropped before the reply was complete", retryable=True)
        self.reply = reply


class _Empty(ProviderError):
    def __init__(self) -> None:
        hint = "try again, or switch to another model"
        super().__init__("the model returned an empty reply", retryable=True, hint=hint)


class RetryingProvider:
    """Wraps a provider and is one."""

    def __init__(
        self,
        provider: Provider,
        patience: Patience | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        rng: Callable[[], float] = _random,
        now: Callable[[], float] = _loop_time,
    ) -> None:
        self.profile = provider.profile
        self.model = provider.model
        self.api = provider.api
        self.context_limit = provider.context_limit
        self._provider = provider
        self._patience = patience or Patience()
        self._sleep = sleep
        self._rng = rng
        self._now = now

    async def stream(self, prompt: Prompt) -> AsyncIterator[Piece]:
        attempt, first_failure = 1, None
        kept: Reply | None = None
        while True:
            begun = False
            try:
                pieces = self._provider.stream(prompt)
                try:
                    async for piece in pieces:
                        begun = begun or type(piece) in _PIECES
                        if type(piece) is Reply:
                            _check_complete(piece)
                            self._patience.has_replied = True
                        yield piece
                finally:
                    await end_stream(pieces)
            except ProviderError as error:
                failure = error
            else:
                return
            first_failure = first_failure or self._now()
            kept = failure.reply if isinstance(failure, _CutOff) else kept
            wait = self._wait(attempt, failure)
            if not self._may_retry(failure, attempt, self._now() - first_failure + wait):
                if kept is None or not failure.retryable:
                    raise failure
                if not isinstance(failure, _CutOff):  # its text was void already
                    yield Restart(str(failure))
                    yield TextDelta(kept.text)
                yield kept
                return
            attempt += 1
            yield Retrying(attempt, str(failure), round(wait * 1000))
            await self._sleep(wait)
            if begun:
                yield Restart(str(failure))

    async def cost_of(self, usage: TokenUsage) -> float | None:
        return await self._provider.cost_of(usage) if has(self._provider, Priced) else None

    async def close(self) -> None:
        await self._provider.close()

    def _may_retry(self, failure: ProviderError, attempt: int, elapsed: float) -> bool:
        if not failure.retryable:
            return False
        # A model with nothing to say is not helped by time.
        return attempt < ATTEMPTS or (elapsed <= self._patience.seconds and not isinstance(failure, _Empty))

    def _wait(self, attempt: int, failure: ProviderError) -> float:
        # Half of the wait is fixed, half is random, so that clients that failed together do not retry together.
        backoff = min(MAX_WAIT, BASE_WAIT * 2 ** (attempt - 1)) * (0.5 + self._rng() / 2)
        return max(backoff, min(max(MAX_ASKED_WAIT, self._patience.seconds), failure.retry_after or 0.0))


def _check_complete(reply: Reply) -> None:
    if reply.finish == CUT_OFF:
        raise _CutOff(reply)
    if not reply.calls and not reply.truncated and not reply.text.strip():
        raise _Empty


async def end_stream(pieces: AsyncIterator[Piece]) -> None:
    """End an inner stream with the outer one, not when the garbage collector runs."""
    if isinstance(pieces, AsyncGenerator):
        await pieces.aclose()
