"""Lines on stdin and stdout, moved by two daemon threads: pipes, sockets and files alike, and no exit waits for them.

Invariants: a line is written completely and in order; an editor that does not read is waited for with a bounded amount
of text in memory.
"""

import asyncio
import contextlib
import os
import queue
import threading

MAX_LINE = 64 * 1024 * 1024
MAX_UNWRITTEN = 8 * 1024 * 1024
_CHUNK = 256 * 1024


class StdioLines:
    def __init__(self, source: int, sink: int) -> None:
        """`source` and `sink` are file descriptors. It is made in a running event loop."""
        self._loop = asyncio.get_running_loop()
        self._source, self._sink = source, sink
        self._incoming: asyncio.Queue[bytes | None] = asyncio.Queue(64)
        self._outgoing: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._unwritten = 0
        self._has_room = asyncio.Event()
        self._is_broken = False
        for work in (self._read, self._write_all):
            threading.Thread(target=work, daemon=True).start()

    async def read_line(self) -> bytes | None:
        """The next line; None once the editor is gone."""
        return await self._incoming.get()

    async def write(self, line: bytes) -> None:
        while self._unwritten >= MAX_UNWRITTEN and not self._is_broken:
            self._has_room.clear()
            await self._has_room.wait()
        if self._is_broken:
            raise BrokenPipeError("the editor is gone")
        self._unwritten += len(line)
        self._outgoing.put(line)

    async def flush(self, seconds: float) -> None:
        """Wait until everything is written, but not for long: the editor may have stopped reading."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._unwritten and not self._is_broken:
                    self._has_room.clear()
                    await self._has_room.wait()

    # --- in threads -------------------------------------------------------------------------------------------------

    def _read(self) -> None:
        pending = bytearray()
        while True:
            try:
                chunk = os.read(self._source, _CHUNK)
            except OSError:
                chunk = b""
            *lines, rest = chunk.split(b"\n")
            for line in lines:
                self._pass_on(bytes(pending) + line)
                pending.clear()
            pending += rest
            if not chunk or len(pending) > MAX_LINE:
                if pending and not chunk:
                    self._pass_on(bytes(pending))
                self._pass_on(None)
                return

    def _pass_on(self, line: bytes | None) -> None:
        with contextlib.suppress(RuntimeError, asyncio.CancelledError):  # the loop is closed: nobody reads
            asyncio.run_coroutine_threadsafe(self._incoming.put(line), self._loop).result()

    def _write_all(self) -> None:
        while True:
            line = self._outgoing.get()
            view = memoryview(line)
            is_broken = False
            while view and not is_broken:
                try:
                    view = view[os.write(self._sink, view) :]
                except OSError:
                    is_broken = True
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._note_written, len(line), is_broken)
            if is_broken:
                return

    def _note_written(self, size: int, is_broken: bool) -> None:
        self._unwritten -= size
        self._is_broken = self._is_broken or is_broken
        self._has_room.set()
