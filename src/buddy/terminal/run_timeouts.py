"""The time limits set for runs in this terminal: one per run, the latest wins."""

import asyncio
from collections.abc import Callable


class RunTimeouts:
    def __init__(self) -> None:
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def set(self, run_id: str, seconds: float, on_timeout: Callable[[], None]) -> None:
        before = self._timers.pop(run_id, None)
        if before is not None:
            before.cancel()
        self._timers[run_id] = asyncio.get_running_loop().call_later(seconds, on_timeout)

    def clear(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
