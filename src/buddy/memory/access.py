"""Access to the index from the event loop: opened once, in threads, writing and searching apart.

Invariants: each connection has its own thread, so a search does not wait for indexing; opening starts at most once.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeVar

from buddy.errors import BuddyError
from buddy.memory.hybrid import Weights
from buddy.memory.index import Index
from buddy.memory.search import Search

Result = TypeVar("Result")


class IndexAccess:
    def __init__(self, path: Path, weights: Weights) -> None:
        self._path = path
        self._weights = weights
        self._index: Index | None = None
        self._search: Search | None = None
        self._writer = ThreadPoolExecutor(1, "memory-write")
        self._reader = ThreadPoolExecutor(1, "memory-read")
        self._opening: asyncio.Task[None] | None = None

    def open_soon(self) -> "asyncio.Task[None]":
        """Start to open the index, if that has not happened."""
        if self._opening is None:
            self._opening = asyncio.get_running_loop().create_task(self._open())
            # A caller that waits for it gets the exception; if nobody does, it is not reported as unhandled.
            self._opening.add_done_callback(lambda done: done.cancelled() or done.exception())
        return self._opening

    async def wait_open(self) -> tuple[Index, Search]:
        await asyncio.shield(self.open_soon())
        if self._index is None or self._search is None:
            raise BuddyError("the memory index is not open")
        return self._index, self._search

    async def write(self, work: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._writer, work)

    async def read(self, work: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._reader, work)

    async def close(self) -> None:
        if self._opening is not None:
            await asyncio.wait([self._opening])
        # The one that writes comes last: only it can remove the write-ahead log.
        if self._search is not None:
            await self.read(self._search.close)
        if self._index is not None:
            await self.write(self._index.close)
        self._writer.shutdown(wait=False)
        self._reader.shutdown(wait=False)

    async def _open(self) -> None:
        self._index = await self.write(partial(Index, self._path))
        self._search = await self.read(partial(Search, self._path, None, self._weights))
