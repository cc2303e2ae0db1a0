"""A command on a pseudo-terminal: what it shows, byte by byte."""

import os
import pty
import selectors
import subprocess
import termios
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.harness.processes import PATIENCE


class PseudoTerminal:
    """`typed` is in the terminal before the command starts; the command is killed when the block is left."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        typed: str = "",
        size: tuple[int, int] = (80, 24),
    ) -> None:
        """`size` is in columns and rows."""
        self.master, slave = pty.openpty()
        termios.tcsetwinsize(slave, (size[1], size[0]))
        os.write(self.master, typed.encode())
        self.process = subprocess.Popen(command, cwd=cwd, env=env, stdin=slave, stdout=slave, stderr=slave)
        os.close(slave)
        self.shown = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)
        os.close(self.master)

    def wait_for(self, text: str, times: int = 1) -> None:
        """Read until a text was shown that number of times."""
        while self.shown.count(text.encode()) < times:
            assert self._read(), f"it ended without {text!r}: {self.shown!r}"

    def wait_until(self, holds: Callable[[bytes], bool]) -> None:
        while not holds(self.shown):
            assert self._read(), f"it ended: {self.shown!r}"

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def finish(self) -> int:
        while self._read():
            pass
        return self.process.wait(PATIENCE)

    def _read(self) -> bool:
        with selectors.DefaultSelector() as selector:
            selector.register(self.master, selectors.EVENT_READ)
            assert selector.select(PATIENCE), f"it hangs after {self.shown!r}"
        try:
            chunk = os.read(self.master, 65536)
        except OSError:  # how Linux says that the other end was closed
            return False
        self.shown += chunk
        return bool(chunk)
