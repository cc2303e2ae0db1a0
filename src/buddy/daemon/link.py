"""Exchanges lines with one peer: what a connection needs from a transport, and the one in memory.

Invariants: a write is complete lines; a full buffer delays the writer, never the work on the other side.
"""

import asyncio
from typing import Protocol


class LineTooLong(Exception):
    """A line exceeds the frame limit; the peer gets an error and is disconnected."""


class ServerLink(Protocol):
    crowded: bool
    """Whether too many lines were already queued when the last one arrived."""

    async def read_line(self) -> bytes | None:
        """The next line without its newline; None when the peer is gone."""
        ...

    async def write(self, lines: bytes) -> None:
        """Send complete lines; ConnectionError when the peer is gone."""
        ...

    def close(self) -> None: ...


class MemoryLink:
    """One end of a pair in this process."""

    def __init__(self, incoming: "asyncio.Queue[bytes | None]", outgoing: "asyncio.Queue[bytes | None]") -> None:
        self.crowded = False
        self._incoming = incoming
        self._outgoing = outgoing
        self._lines: list[bytes] = []
        self._closed = False

    async def read_line(self) -> bytes | None:
        while not self._lines:
            chunk = await self._incoming.get()
            if chunk is None:
                return None
            self._lines = chunk.splitlines()
            self._lines.reverse()
        return self._lines.pop()

    async def write(self, lines: bytes) -> None:
        if self._closed:
            raise ConnectionResetError("the connection is closed")
        await self._outgoing.put(lines)

    def close(self) -> None:
        """Close both ends; what is still on its way here is dropped."""
        if not self._closed:
            self._closed = True
            for queue in (self._outgoing, self._incoming):
                while queue.full():
                    queue.get_nowait()
                queue.put_nowait(None)


def memory_pair(size: int = 64) -> tuple[MemoryLink, MemoryLink]:
    """Two ends that talk to each other."""
    to_runtime: asyncio.Queue[bytes | None] = asyncio.Queue(size)
    to_client: asyncio.Queue[bytes | None] = asyncio.Queue(size)
    return MemoryLink(to_client, to_runtime), MemoryLink(to_runtime, to_client)
