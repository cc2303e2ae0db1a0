"""A provider whose replies carry their cost: the server's own figure where it gives one, else tokens times price."""

from collections.abc import AsyncIterator

from msgspec.structs import replace

from buddy.models.contract import Piece, Prompt, Provider, Reply


class Priced:
    """Prices are in US dollars per million tokens."""

    def __init__(self, provider: Provider, input_price: float, output_price: float) -> None:
        self.profile = provider.profile
        self.model = provider.model
        self.api = provider.api
        self.context_limit = provider.context_limit
        self._provider = provider
        self._input_price = input_price
        self._output_price = output_price

    async def stream(self, prompt: Prompt) -> AsyncIterator[Piece]:
        async for piece in self._provider.stream(prompt):
            yield self._priced(piece) if isinstance(piece, Reply) else piece

    async def close(self) -> None:
        await self._provider.close()

    def _priced(self, reply: Reply) -> Reply:
        usage = reply.usage
        if usage is None or usage.cost_usd is not None:
            return reply
        cost = (usage.input_tokens * self._input_price + usage.output_tokens * self._output_price) / 1e6
        return replace(reply, usage=replace(usage, cost_usd=cost))
