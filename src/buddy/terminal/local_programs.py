"""Programs that the person runs from this terminal: `!cmd`, git, a login, the shell that started us.

Invariants: a program's output is escaped line by line and bounded; an interrupt kills it and everything it started;
while a program has the terminal, nothing else writes to it.
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping, Sequence

from prompt_toolkit.application.run_in_terminal import in_terminal, run_in_terminal

from buddy.terminal.blocks import LINE, diff_block
from buddy.terminal.escape import escape
from buddy.terminal.full_screen import needs_terminal
from buddy.terminal.screen import Screen
from buddy.terminal.style import Style

MOST_LINES = 2000
CHUNK = 65536


class LocalPrograms:
    """`is_lent`: a program has the terminal, and its keys, Ctrl-C included."""

    is_lent = False

    def __init__(self, screen: Screen, style: Style) -> None:
        self._screen = screen
        self._style = style
        self._process: asyncio.subprocess.Process | None = None

    @property
    def is_running(self) -> bool:
        return self._process is not None

    def interrupt(self) -> bool:
        """Kill the running program; False if there is none."""
        if self._process is None:
            return False
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        return True

    async def run(self, command: Sequence[str] | str, root: str, environment: Mapping[str, str] | None = None) -> int:
        """Run a program in the workspace and show its output; returns its exit code."""
        if isinstance(command, str) and needs_terminal(command):
            return await self.lend(command, root)
        words = [_shell(), "-c", command] if isinstance(command, str) else command
        process = self._process = await asyncio.create_subprocess_exec(
            *words,
            cwd=root,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
            env=environment,
        )
        self._screen.redraw()
        try:
            await self._show_output(process, is_diff="diff" in command)
            code = await process.wait()
        finally:
            self.interrupt()
            self._process = None
            self._screen.redraw()
        self._show_failure(code)
        return code

    async def lend(self, command: Sequence[str] | str, root: str | None = None) -> int:
        """Give the terminal to a program until it ends; returns its exit code."""
        words = [_shell(), "-c", command] if isinstance(command, str) else command
        self._screen.flush()
        # Held output is written once the editor has the terminal back, or it would be drawn twice.
        with self._screen.suspended():
            async with in_terminal():
                process = await asyncio.create_subprocess_exec(*words, cwd=root)
                self.is_lent = True
                try:
                    code = await process.wait()
                finally:
                    self.is_lent = False
        if code not in (-signal.SIGINT, 128 + signal.SIGINT):  # Ctrl-C was meant for it
            self._show_failure(code)
        return code

    async def suspend(self) -> None:
        """Give the terminal back to the shell until it continues us."""
        self._screen.flush()
        with self._screen.suspended():
            await run_in_terminal(lambda: os.kill(0, signal.SIGTSTP))

    def _show_failure(self, code: int) -> None:
        if code:
            result = f"exit {code}" if code > 0 else f"killed by {signal.Signals(-code).name}"
            self._screen.print_above(self._style.dim(f"  {result}"))

    async def _show_output(self, process: asyncio.subprocess.Process, *, is_diff: bool) -> None:
        assert process.stdout is not None  # noqa: S101 - requested above
        left, rest = MOST_LINES, ""
        while chunk := await process.stdout.read(CHUNK):
            *lines, rest = (rest + chunk.decode(errors="replace")).split("\n")
            rest = rest[-CHUNK:]
            self._show_lines(lines[: max(0, left)], is_diff=is_diff)
            left -= len(lines)
        if rest and left > 0:
            self._show_lines([rest], is_diff=is_diff)
        if left < 0:
            self._screen.print_above(self._style.dim(f"  … {-left} more lines"))

    def _show_lines(self, lines: Sequence[str], *, is_diff: bool) -> None:
        if lines and is_diff:
            self._screen.print_above(diff_block("\n".join(lines), self._style, most=MOST_LINES))
        elif lines:
            self._screen.print_above("\n".join(f"  {escape(line[:LINE])}" for line in lines))


def _shell() -> str:
    return os.environ.get("SHELL") or "/bin/sh"
