"""Tasks that wait for a session's log to grow.

Invariant: a wake-up is a hint: a spurious or missed one costs a read, never an event.
"""

import asyncio
import contextlib


class Waiters:
    def __init__(self) -> None:
        self._waiting: dict[str, set[asyncio.Future[None]]] = {}

    async def wait_for_wake(self, session_id: str, timeout: float) -> None:
        """Return at the next `wake` of this session, or after `timeout` seconds."""
        future = asyncio.get_running_loop().create_future()
        waiting = self._waiting.setdefault(session_id, set())
        waiting.add(future)
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    await future
        finally:
            waiting.discard(future)
            if not waiting and self._waiting.get(session_id) is waiting:
                del self._waiting[session_id]

    def wake(self, session_id: str) -> None:
        for future in self._waiting.get(session_id, ()):
            if not future.done():
                future.set_result(None)

    def is_waited_for(self, session_id: str) -> bool:
        return session_id in self._waiting

    def wake_all(self) -> None:
        for session_id in tuple(self._waiting):
            self.wake(session_id)
