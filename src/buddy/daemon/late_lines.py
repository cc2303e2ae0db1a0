"""Lines for one peer that nobody waits for: they are queued, and a peer that reads too slowly is disconnected."""

import asyncio

from buddy.daemon.link import ServerLink


class LateLines:
    def __init__(self, link: ServerLink, limit: int) -> None:
        self._link = link
        self._limit = limit
        self._queued: list[bytes] = []
        self._size = 0
        self._sending: asyncio.Task[None] | None = None

    def add(self, lines: bytes) -> None:
        self._queued.append(lines)
        self._size += len(lines)
        if self._size > self._limit:
            self._link.close()
        elif self._sending is None:
            self._sending = asyncio.get_running_loop().create_task(self._send())

    def close(self) -> None:
        if self._sending is not None:
            self._sending.cancel()

    async def _send(self) -> None:
        try:
            while self._queued:
                lines, self._queued, self._size = b"".join(self._queued), [], 0
                await self._link.write(lines)
        except ConnectionError:
            self._link.close()
        finally:
            self._sending = None
