"""What a provider call would cost, told before it is made."""

from buddy.models.contract import Priced, Provider, TokenUsage


async def cost_of(provider: Provider, usage: TokenUsage) -> float | None:
    """US dollars; None where nobody knows the price."""
    return await provider.cost_of(usage) if isinstance(provider, Priced) else None
