"""The context window that a session knows: what its model's server said, also before a restart."""

from buddy.capabilities import has
from buddy.models.contract import Provider, Windowed
from buddy.protocol.events import EventBody, ModelSwitched, Usage


class KnownWindow:
    """A fold of the session's events: the window that its last call was measured against."""

    observed = frozenset({Usage, ModelSwitched})

    def __init__(self) -> None:
        self._limit: int | None = None

    def observe(self, body: EventBody) -> None:
        if type(body) is Usage:
            self._limit = None if body.context.assumed else body.context.limit
        elif type(body) is ModelSwitched:
            self._limit = None

    async def find(self, provider: Provider) -> bool:
        """Find out the provider's window if nobody has said it yet; returns whether it is still only assumed."""
        if not has(provider, Windowed) or not provider.is_window_assumed:
            return False
        await provider.learn()
        if self._limit is not None:
            provider.keep_window(self._limit)
        return provider.is_window_assumed
