"""Idle connections, kept for reuse.

Invariants: a connection returns here only after a response that was read to its end; it does not know whose exchange
that was, so the next may be anyone's; none is handed out on which the server sent something meanwhile, or its end.
"""

import itertools
import time

from buddy.models.http.connection import Connection
from buddy.models.http.wakeup_limiter import WakeupLimiter

MAX_IDLE = 128  # the maximum number of concurrent runs
MAX_IDLE_SECONDS = 60.0


class Pool:
    """Idle connections by origin; `close` ends them. Those in use share a wake-up limiter."""

    def __init__(self) -> None:
        self.limiter = WakeupLimiter()
        self._idle: dict[str, list[tuple[Connection, float]]] = {}

    def take(self, origin: str) -> Connection | None:
        idle = self._idle.get(origin)
        while idle:
            connection, since = idle.pop()
            if connection.is_idle and time.monotonic() - since < MAX_IDLE_SECONDS:
                return connection
            connection.abort()
        return None

    def give_back(self, origin: str, connection: Connection) -> None:
        """The exchange on it is over: keep it if another one can follow, else end it."""
        idle = self._idle.setdefault(origin, [])
        if not connection.release() or len(idle) >= MAX_IDLE:
            connection.abort()
        else:
            idle.append((connection, time.monotonic()))

    def close(self) -> None:
        for connection, _ in itertools.chain.from_iterable(self._idle.values()):
            connection.abort()
        self._idle.clear()
