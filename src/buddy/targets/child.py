"""One process group under way: its output, its end, and ending it.

Invariants:
- a chunk is read only after the one before it was taken, so a slow reader slows the writer and nothing piles up;
- everything the child itself wrote is given on, also when a background job keeps the pipe open;
- the child is reaped last: while it is a zombie its group's number cannot belong to anyone else.
"""

import asyncio
import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import IO, Literal

from buddy.errors import ToolError
from buddy.targets.contract import OnOutput

CHUNK = 64 * 1024
DRAIN = 0.25
PATIENCE = 5.0
# No pipe holds more than this unless root said so: what a child left in it is read even when nobody closes it.
PIPE_LIMIT = 1024 * 1024


class Pipe:
    """The reading end of one output stream; it holds one chunk at most, and reads on when that was taken."""

    def __init__(self, stream: Literal["stdout", "stderr"], news: asyncio.Event) -> None:
        """`news` is set when there is a chunk; when there will be no more, only where that `is_awaited`."""
        self.stream: Literal["stdout", "stderr"] = stream
        self.is_dry = False
        self.is_awaited = False
        self._news = news
        self._chunk = b""
        self._loop = asyncio.get_running_loop()
        self.reader, self.writer = os.pipe()
        os.set_blocking(self.reader, False)

    def listen(self) -> None:
        self._loop.add_reader(self.reader, self._read)

    async def pass_on(self, on_output: OnOutput) -> None:
        """Give on the chunk that is held, if one is."""
        if self._chunk:
            chunk, self._chunk = self._chunk, b""
            try:
                await on_output(self.stream, chunk)
            finally:
                self.listen()

    async def empty(self, on_output: OnOutput) -> None:
        """Give on what is in it now, without waiting for more."""
        left = PIPE_LIMIT
        while left > 0 and (self._chunk or self._read()):
            left -= len(self._chunk)
            await self.pass_on(on_output)

    def close_writer(self) -> None:
        if self.writer >= 0:
            os.close(self.writer)
            self.writer = -1

    def close(self) -> None:
        if not self.is_dry:
            self._loop.remove_reader(self.reader)
        self.close_writer()
        os.close(self.reader)

    def _read(self) -> bool:
        """Take the next chunk; whether there was one."""
        try:
            self._chunk = os.read(self.reader, CHUNK)
        except BlockingIOError:
            return False
        self._loop.remove_reader(self.reader)
        self.is_dry = not self._chunk
        if not self.is_dry or self.is_awaited:
            self._news.set()
        return not self.is_dry


class Child:
    """A started process that leads its own session and group. `news` is set by its pipes, and when it has exited."""

    def __init__(self, process: "subprocess.Popen[bytes]", pipes: Sequence[Pipe], news: asyncio.Event) -> None:
        self.process = process
        self.pipes = pipes
        self._news = news
        self._has_exited = False
        self._is_late = False
        self._loop = asyncio.get_running_loop()
        self._handle = _open_handle(process.pid)
        self._waiting: asyncio.Task[None] | None = None
        if self._handle is not None:
            self._loop.add_reader(self._handle, self._note_exit)
        else:
            self._waiting = self._loop.create_task(self._wait_in_thread())
        for pipe in pipes:
            pipe.listen()

    async def follow(
        self, on_output: OnOutput, timeout: float | None, grace: float, has_told: Callable[[], bool] = bool
    ) -> bool:
        """Give its output on until it has exited; with `timeout`, end it then. Whether it ended by itself.

        `has_told` is whether its output said that it ended, while it may stay for what it left behind.
        """
        in_time = await self._pass_on(on_output, lambda: self._has_exited or has_told(), timeout)
        if not in_time:
            await self.end(grace, on_output)
        self._expect_ends()
        if not await self._pass_on(on_output, self._is_dry, DRAIN):
            for pipe in self.pipes:
                await pipe.empty(on_output)
        return in_time

    async def end(self, grace: float, on_output: "OnOutput | None" = None) -> None:
        """End the whole group: ask, wait a moment, then insist. Output from here on is nobody's, unless it is given."""
        take = on_output or _discard
        self._signal(signal.SIGTERM)
        self._expect_ends()
        # Both: when the leader is gone and nobody holds the pipes, there is nobody left to wait for.
        await self._pass_on(take, lambda: self._has_exited and self._is_dry(), grace)
        self._signal(signal.SIGKILL)
        # Bounded, because a process stuck inside the kernel does not even heed this.
        await self._pass_on(take, lambda: self._has_exited, PATIENCE)

    def close(self) -> int:
        """Reap it and let go of everything; give its exit code."""
        if self._handle is not None:
            if not self._has_exited:
                self._loop.remove_reader(self._handle)
            os.close(self._handle)
            self._handle = None
        if self._waiting is not None:
            self._waiting.cancel()
        for pipe in self.pipes:
            pipe.close()
        code = self.process.poll()
        return -signal.SIGKILL if code is None else code

    async def _pass_on(self, on_output: OnOutput, is_over: Callable[[], bool], seconds: float | None) -> bool:
        """Give output on until it is over, or so much time is; whether it was over by then."""
        self._is_late = False
        timer = None if seconds is None else self._loop.call_later(seconds, self._note_late)
        try:
            while True:
                self._news.clear()
                for pipe in self.pipes:
                    await pipe.pass_on(on_output)
                if is_over():
                    return True
                if self._is_late:
                    return False
                await self._news.wait()
        finally:
            if timer is not None:
                timer.cancel()

    def _expect_ends(self) -> None:
        """From now on somebody waits for the end of its output, not only for its own."""
        for pipe in self.pipes:
            pipe.is_awaited = True

    def _is_dry(self) -> bool:
        return all(pipe.is_dry for pipe in self.pipes)

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, number)

    async def _wait_in_thread(self) -> None:
        await asyncio.to_thread(self.process.wait)
        self._note_exit()

    def _note_exit(self) -> None:
        if self._handle is not None:
            self._loop.remove_reader(self._handle)
        self._has_exited = True
        self._news.set()

    def _note_late(self) -> None:
        self._is_late = True
        self._news.set()


def start(argv: Sequence[str], cwd: str, env: Mapping[str, str] | Mapping[bytes, bytes], stdin: bytes = b"") -> Child:
    """Start a program in a session of its own; ToolError where that is not possible."""
    news = asyncio.Event()
    pipes: list[Pipe] = []
    try:
        pipes.append(Pipe("stdout", news))
        pipes.append(Pipe("stderr", news))
        with _given(stdin) as given:
            process = subprocess.Popen(
                argv,
                cwd=cwd,
                env=env,
                stdin=given or subprocess.DEVNULL,
                stdout=pipes[0].writer,
                stderr=pipes[1].writer,
                start_new_session=True,
            )
    except (OSError, ValueError) as error:
        for pipe in pipes:
            pipe.close()
        raise ToolError(_explain(error, cwd)) from error
    for pipe in pipes:
        pipe.close_writer()
    return Child(process, pipes, news)


@contextmanager
def _given(stdin: bytes) -> "Generator[IO[bytes] | None]":
    """What a child reads: a file without a name, because a pipe takes only so much before it is read."""
    if not stdin:
        yield None
        return
    import tempfile

    with tempfile.TemporaryFile() as file:
        file.write(stdin)
        file.seek(0)
        yield file


def _explain(error: OSError | ValueError, cwd: str) -> str:
    if isinstance(error, ValueError):
        return "the command has bytes that no command can have (NUL or a broken character); leave them out"
    if isinstance(error, (FileNotFoundError, NotADirectoryError)):
        return f"the directory {cwd!r} is not there; give another cwd"
    if error.errno == errno.E2BIG:
        return "the command is too long for the system; write it into a file and run that"
    return f"the command could not be started: {error.strerror}"


def _open_handle(pid: int) -> int | None:
    if sys.platform == "linux":
        with suppress(OSError):
            return os.pidfd_open(pid)
    return None


async def _discard(_stream: Literal["stdout", "stderr"], _chunk: bytes) -> None:
    pass
