"""One process group under way: its output, its end, and ending it.

What always holds:
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
import tempfile
from collections.abc import Generator, Mapping, Sequence
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
    """The reading end of one output stream."""

    def __init__(self, stream: Literal["stdout", "stderr"]) -> None:
        self.stream: Literal["stdout", "stderr"] = stream
        self.reader, self.writer = os.pipe()
        os.set_blocking(self.reader, False)
        self.closing = False
        self.readable: asyncio.Future[None] | None = None

    async def pump(self, on_output: OnOutput) -> None:
        """Give on what comes, until nobody can write any more or `finish` was called and the pipe is empty."""
        left = PIPE_LIMIT
        while left > 0:
            try:
                chunk = os.read(self.reader, CHUNK)
            except BlockingIOError:
                if self.closing:
                    return
                await self._wait_readable()
                continue
            if not chunk:
                return
            await on_output(self.stream, chunk)
            # A child that never stops writing, into a taker that never waits, must not keep the loop for itself.
            await asyncio.sleep(0)
            left -= len(chunk) if self.closing else 0

    def finish(self) -> None:
        self.closing = True
        self._wake()

    def close_writer(self) -> None:
        if self.writer >= 0:
            os.close(self.writer)
            self.writer = -1

    def close(self) -> None:
        self.close_writer()
        os.close(self.reader)

    async def _wait_readable(self) -> None:
        loop = asyncio.get_running_loop()
        self.readable = loop.create_future()
        loop.add_reader(self.reader, self._wake)
        try:
            await self.readable
        finally:
            loop.remove_reader(self.reader)
            self.readable = None

    def _wake(self) -> None:
        if self.readable is not None and not self.readable.done():
            self.readable.set_result(None)


class Child:
    """A started process that leads its own session and group. `exited` is done once it has exited."""

    def __init__(self, process: "subprocess.Popen[bytes]", pipes: Sequence[Pipe]) -> None:
        self.process = process
        self.pipes = pipes
        self._handle = _open_handle(process.pid)
        loop = asyncio.get_running_loop()
        self.exited: asyncio.Future[None] = loop.create_future()
        if self._handle is None:
            self.exited = asyncio.ensure_future(_wait_in_thread(process))
        else:
            loop.add_reader(self._handle, self._note_exit)

    async def follow(
        self, on_output: OnOutput, timeout: float | None, grace: float, told: "asyncio.Future[None] | None" = None
    ) -> bool:
        """Give its output on until it has exited; with `timeout`, end it then. Whether it ended by itself.

        `told` is done when the end of it is known some other way, while it may stay for what it left behind.
        """
        pumps = asyncio.create_task(self._pump(on_output))
        pumps.add_done_callback(_look)
        try:
            in_time = await self._wait_exit(pumps, timeout, told)
            if not in_time:
                await self._end(pumps, grace)
            await asyncio.wait({pumps}, timeout=DRAIN)
            for pipe in self.pipes:
                pipe.finish()
            await pumps
            return in_time
        finally:
            pumps.cancel()
            await asyncio.wait({pumps})

    async def end(self, grace: float) -> None:
        """End the whole group: ask, wait a moment, then insist. Output from here on is nobody's."""
        drain = asyncio.create_task(self._pump(_discard))
        try:
            await self._end(drain, grace)
        finally:
            drain.cancel()
            await asyncio.wait({drain})

    def close(self) -> int:
        """Reap it and let go of everything; give its exit code."""
        if self._handle is not None:
            asyncio.get_running_loop().remove_reader(self._handle)
            os.close(self._handle)
            self._handle = None
        self.exited.cancel()
        for pipe in self.pipes:
            pipe.close()
        code = self.process.poll()
        return -signal.SIGKILL if code is None else code

    async def _pump(self, on_output: OnOutput) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                for pipe in self.pipes:
                    group.create_task(pipe.pump(on_output))
        except BaseExceptionGroup as failures:
            # The taker's own error is what the caller knows how to handle, not a group of one.
            raise failures.exceptions[0] from None

    async def _wait_exit(
        self, pumps: "asyncio.Task[None]", timeout: float | None, told: "asyncio.Future[None] | None"
    ) -> bool:
        loop = asyncio.get_running_loop()
        deadline = None if timeout is None else loop.time() + timeout
        ends = {self.exited} if told is None else {self.exited, told}
        await asyncio.wait({*ends, pumps}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        if pumps.done() and not any(end.done() for end in ends):
            pumps.result()
            left = None if deadline is None else max(0, deadline - loop.time())
            await asyncio.wait(ends, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        return any(end.done() for end in ends)

    async def _end(self, pumps: "asyncio.Task[None]", grace: float) -> None:
        self._signal(signal.SIGTERM)
        # Both: when the leader is gone and nobody holds the pipes, there is nobody left to wait for.
        await asyncio.wait({self.exited, pumps}, timeout=grace)
        self._signal(signal.SIGKILL)
        # Bounded, because a process stuck inside the kernel does not even heed this.
        await asyncio.wait({self.exited}, timeout=PATIENCE)

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, number)

    def _note_exit(self) -> None:
        if self._handle is not None:
            asyncio.get_running_loop().remove_reader(self._handle)
        if not self.exited.done():
            self.exited.set_result(None)


def start(argv: Sequence[str], cwd: str, env: Mapping[str, str], stdin: bytes = b"") -> Child:
    """Start a program in a session of its own; ToolError where that is not possible."""
    pipes: list[Pipe] = []
    try:
        pipes.append(Pipe("stdout"))
        pipes.append(Pipe("stderr"))
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
    return Child(process, pipes)


@contextmanager
def _given(stdin: bytes) -> "Generator[IO[bytes] | None]":
    """What a child reads: a file without a name, because a pipe takes only so much before it is read."""
    if not stdin:
        yield None
        return
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


async def _wait_in_thread(process: "subprocess.Popen[bytes]") -> None:
    await asyncio.to_thread(process.wait)


def _look(task: "asyncio.Task[None]") -> None:
    """Take note of a failure that an earlier one hides, so that it is not reported as lost."""
    if not task.cancelled():
        task.exception()


async def _discard(_stream: Literal["stdout", "stderr"], _chunk: bytes) -> None:
    pass
