"""What a provider call would cost, before it is made."""

from buddy.capabilities import has
from buddy.models.contract import Priced, Provider, TokenUsage


async def cost_of(provider: Provider, usage: TokenUsage) -> float | None:
    """US dollars; None if the price is unknown."""
    return await provider.cost_of(usage) if has(provider, Priced) else None
