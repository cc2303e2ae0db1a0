"""Lines of stdin, read so that an interrupt never has to wait for one.

Invariants: lines that were typed before a question do not answer it, and come after it.
"""

import asyncio
import contextlib
import sys
import termios
import threading

from buddy.terminal.line_question import is_readable


class StdinLines:
    def __init__(self) -> None:
        self._line: asyncio.Future[str] | None = None
        self._interrupted: asyncio.Future[None] | None = None
        self._early: list[str] = []

    def set_aside(self) -> None:
        """Keep lines that were typed until now for later; an unfinished one is discarded."""
        if self._line is not None and self._line.done():
            self._early.append(self._line.result())
            self._line = None
        while self._line is None and "" not in self._early and self.has_more():
            self._early.append(sys.stdin.readline())
        with contextlib.suppress(termios.error):
            termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)

    def has_more(self) -> bool:
        return is_readable(sys.stdin.fileno())

    async def next(self, *, is_answer: bool = False) -> str:
        """The next line, "" at the end of input; an empty line if interrupted, and the real one is still to come.

        An answer is typed now: lines that were set aside stay there.
        """
        if self._early and not is_answer:
            return self._early.pop(0)
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
