"""Lines of stdin, read so that an interrupt never has to wait for one."""

import asyncio
import contextlib
import sys
import threading


class StdinLines:
    def __init__(self) -> None:
        self._line: asyncio.Future[str] | None = None
        self._interrupted: asyncio.Future[None] | None = None

    async def next(self) -> str:
        """The next line, "" at the end of input; an empty line if interrupted, and the real one is still to come."""
        line = self._line = self._line or self._read()
        self._interrupted = asyncio.get_running_loop().create_future()
        await asyncio.wait((line, self._interrupted), return_when=asyncio.FIRST_COMPLETED)
        if not line.done():
            return "\n"
        self._line = None
        return line.result()

    def interrupt(self) -> None:
        if self._interrupted is not None and not self._interrupted.done():
            self._interrupted.set_result(None)

    def _read(self) -> "asyncio.Future[str]":
        """Read a line in a daemon thread: the process can exit although none comes."""
        loop = asyncio.get_running_loop()
        line: asyncio.Future[str] = loop.create_future()

        def read() -> None:
            text = sys.stdin.readline()
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(line.set_result, text)

        threading.Thread(target=read, daemon=True).start()
        return line
