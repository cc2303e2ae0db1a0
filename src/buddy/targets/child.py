"""One running process group: its output, its exit, and how to end it.

Invariants:
- a chunk is read only after the previous one was consumed, so a slow reader slows the writer and nothing piles up;
- everything the child itself wrote is forwarded, even if a background job keeps the pipe open;
- the child is reaped last: while it is a zombie, its process group id cannot be reused.
"""

import asyncio
import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import IO, Literal, Protocol

from buddy.errors import ToolError
from buddy.targets.contract import OnOutput

CHUNK = 64 * 1024
DRAIN = 0.25
PATIENCE = 5.0
# No pipe holds more than this unless root raised the limit: what a child left in it is read even if it stays open.
PIPE_LIMIT = 1024 * 1024

Streams = tuple["IO[bytes] | int", int, int]
"""Open files: standard input, output and error."""


class Process(Protocol):
    """What is needed of `subprocess.Popen`."""

    pid: int

    def poll(self) -> int | None: ...

    def wait(self) -> int: ...


Launch = Callable[[Streams], tuple[Process, int]]
"""Starts a session leader with these streams; with it comes a handle that is readable once its exit code is known."""


class Pipe:
    """The read end of one output stream; it holds at most one chunk and continues when that was consumed."""

    def __init__(self, stream: Literal["stdout", "stderr"], news: asyncio.Event) -> None:
        """`news` is set when there is a chunk, and at the end of the stream if that `is_awaited`."""
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

    async def forward(self, on_output: OnOutput) -> None:
        """Forward the held chunk, if there is one."""
        if self._chunk:
            chunk, self._chunk = self._chunk, b""
            try:
                await on_output(self.stream, chunk)
            finally:
                self.listen()

    async def empty(self, on_output: OnOutput) -> None:
        """Forward what is in the pipe now without waiting for more."""
        left = PIPE_LIMIT
        while left > 0 and (self._chunk or self._read()):
            left -= len(self._chunk)
            await self.forward(on_output)

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
        """Read the next chunk; return whether there was one."""
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
    """A started process that leads its own session and group. `news` is set by its pipes and when it exits."""

    def __init__(self, process: Process, handle: int | None, pipes: Sequence[Pipe], news: asyncio.Event) -> None:
        self.process = process
        self.pipes = pipes
        self._news = news
        self._has_exited = False
        self._is_late = False
        self._loop = asyncio.get_running_loop()
        self._handle = handle
        self._waiting: asyncio.Task[None] | None = None
        if self._handle is not None:
            self._loop.add_reader(self._handle, self._note_exit)
        else:
            self._waiting = self._loop.create_task(self._wait_in_thread())
        for pipe in pipes:
            pipe.listen()

    async def follow(
        self, on_output: OnOutput, timeout: float | None, grace: float, has_reported_end: Callable[[], bool] = bool
    ) -> bool:
        """Forward its output until it exits, or end it after `timeout`; return whether it ended by itself.

        `has_reported_end` is true once its output reported the end, even if the process itself stays.
        """
        in_time = await self._forward(on_output, lambda: self._has_exited or has_reported_end(), timeout)
        if not in_time:
            await self.end(grace, on_output)
        self._expect_ends()
        if not await self._forward(on_output, self._is_dry, DRAIN):
            for pipe in self.pipes:
                await pipe.empty(on_output)
        return in_time

    async def end(self, grace: float, on_output: "OnOutput | None" = None) -> None:
        """End the entire group: SIGTERM, a grace period, then SIGKILL. Output is dropped without `on_output`."""
        take = on_output or _discard
        self._signal(signal.SIGTERM)
        self._expect_ends()
        # Both: once the leader is gone and nobody holds the pipes, nobody is left to wait for.
        await self._forward(take, lambda: self._has_exited and self._is_dry(), grace)
        self._signal(signal.SIGKILL)
        # Bounded, because a process stuck in the kernel ignores even SIGKILL.
        await self._forward(take, lambda: self._has_exited, PATIENCE)

    def close(self) -> int:
        """Reap it, release everything and return its exit code."""
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

    async def _forward(self, on_output: OnOutput, is_over: Callable[[], bool], seconds: float | None) -> bool:
        """Forward output until `is_over` or the timeout; return whether it was over in time."""
        self._is_late = False
        timer = None if seconds is None else self._loop.call_later(seconds, self._note_late)
        try:
            while True:
                self._news.clear()
                for pipe in self.pipes:
                    await pipe.forward(on_output)
                if is_over():
                    return True
                if self._is_late:
                    return False
                await self._news.wait()
        finally:
            if timer is not None:
                timer.cancel()

    def _expect_ends(self) -> None:
        """From now on, wait for the end of its output as well as its exit."""
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


def start(
    argv: Sequence[str],
    cwd: str,
    env: Mapping[str, str] | Mapping[bytes, bytes],
    stdin: bytes | int = b"",
    fds: Sequence[int] = (),
    launch: "Launch | None" = None,
) -> Child:
    """Start a program in its own session; ToolError if that fails.

    `stdin` is what it reads, or an open file; `fds` are other open files that it gets; `launch` starts it instead of
    `Popen`.
    """
    news = asyncio.Event()
    pipes: list[Pipe] = []
    try:
        pipes.append(Pipe("stdout", news))
        pipes.append(Pipe("stderr", news))
        with _stdin_file(stdin) as stdin_file:
            streams = (stdin_file, pipes[0].writer, pipes[1].writer)
            if launch is not None:
                os.close(os.open(cwd, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC))  # the error is clearer here
            process, handle = launch(streams) if launch else _spawn(argv, cwd, env, streams, fds)
    except (OSError, ValueError) as error:
        for pipe in pipes:
            pipe.close()
        raise ToolError(_explain(error, cwd)) from error
    for pipe in pipes:
        pipe.close_writer()
    return Child(process, handle, pipes, news)


def _spawn(
    argv: Sequence[str],
    cwd: str,
    env: Mapping[str, str] | Mapping[bytes, bytes],
    streams: Streams,
    fds: Sequence[int],
) -> tuple[Process, int | None]:
    stdin, stdout, stderr = streams
    process = subprocess.Popen(
        argv, cwd=cwd, env=env, stdin=stdin, stdout=stdout, stderr=stderr, start_new_session=True, pass_fds=fds
    )
    return process, _open_handle(process.pid)


@contextmanager
def _stdin_file(stdin: bytes | int) -> "Generator[IO[bytes] | int]":
    """The child's stdin as an unnamed file, because a pipe has a limited buffer."""
    if isinstance(stdin, int) or not stdin:
        yield stdin if isinstance(stdin, int) else subprocess.DEVNULL
        return
    import tempfile

    with tempfile.TemporaryFile() as file:
        file.write(stdin)
        file.seek(0)
        yield file


def _explain(error: OSError | ValueError, cwd: str) -> str:
    if isinstance(error, ValueError):
        return "the command contains invalid bytes (NUL or a broken character); remove them"
    if isinstance(error, (FileNotFoundError, NotADirectoryError)):
        return f"the directory {cwd!r} does not exist; use another cwd"
    if error.errno == errno.E2BIG:
        return "the command is too long for the system; write it to a file and run that"
    return f"the command could not be started: {error.strerror}"


def _open_handle(pid: int) -> int | None:
    if sys.platform == "linux":
        with suppress(OSError):
            return os.pidfd_open(pid)
    return None


async def _discard(_stream: Literal["stdout", "stderr"], _chunk: bytes) -> None:
    pass
