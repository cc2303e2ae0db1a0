"""A key that means something only if it stays alone: "3" answers, and "3 more tests" is text.

Invariants: it acts at most once, after the pause; any other key before that makes it text.
"""

import asyncio
from collections.abc import Callable

PAUSE_SECONDS = 0.3


class LoneKey:
    def __init__(self) -> None:
        self._timer: asyncio.TimerHandle | None = None

    def wait(self, act: Callable[[], None]) -> None:
        """Act after the pause, unless another key comes."""
        self.cancel()
        self._timer = asyncio.get_running_loop().call_later(PAUSE_SECONDS, act)

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
