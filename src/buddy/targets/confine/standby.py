"""Processes that wait for confined commands, so that no command waits for Python to start or for a control group.

One process has imported everything and forks the others (`fork_server.py`), each of which runs one command. Entering a
group takes milliseconds, more on an idle machine: the kernel waits until all its processors have noticed.

Invariants: at most one process waits, and the next one is forked when its command has ended; all of them end when this
process does; if none waits, a command gets a new one. What is sent never blocks: a command is in a file in memory. All
of it belongs to one thread, the event loop's: the kernel ends what a thread has started with the thread.
"""

import asyncio
import os
import secrets
import select
import socket
import subprocess
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress

from buddy.errors import ToolError
from buddy.targets.child import Streams
from buddy.targets.confine.limits import leave_groups, make_groups
from buddy.targets.confine.methods import FORK_SERVER, LANDLOCK

Launcher = Callable[[Sequence[str], Mapping[bytes, bytes], Streams], "ForkedProcess"]
PATIENCE = 5.0
KILLED = -9


class ForkedProcess:
    """A process of the fork server, which leads its own session; it satisfies `child.Process`.

    It is in its control groups, or about to enter them, and waits for a command until it is sent one.
    """

    def __init__(self, groups: Sequence[str], command: socket.socket, control: socket.socket) -> None:
        self.groups = groups
        self.pid = 0
        self._command = command
        self._control = control
        self._handle = -1
        self._code: int | None = None
        self.is_waiting = True

    async def wait_ready(self) -> None:
        """Wait until it was forked; OSError if it was not."""
        if self.pid:
            return
        async with asyncio.timeout(PATIENCE):
            line = await asyncio.get_running_loop().sock_recv(self._control, 16)
        if not line:
            raise ConnectionResetError("the process that confines commands has ended")
        self.pid = int(line)
        self._handle = os.pidfd_open(self.pid)

    def has_exited(self, wait_ms: int | None = 0) -> bool:
        """Whether it has, now or within a time; None is any time."""
        news = select.poll()  # not `select`, which knows no handles above 1023
        news.register(self._handle, select.POLLIN)
        return bool(news.poll(wait_ms))

    def launch(self, argv: Sequence[str], env: Mapping[bytes, bytes], streams: Streams) -> "ForkedProcess":
        """Have it run a command line of Landlock's with these open files."""
        held = os.memfd_create("request")
        try:
            os.pwrite(held, _encode(argv[len(LANDLOCK) :], env), 0)
            opened = [one if isinstance(one, int) else one.fileno() for one in streams]
            socket.send_fds(self._command, [b"x"], [held, *opened])
        finally:
            os.close(held)
        self._command.close()
        self.is_waiting = False
        return self

    def poll(self) -> int | None:
        """Its exit code, None while it runs; once it has exited, it is reaped."""
        if self._code is None and self.has_exited():
            self._control.settimeout(PATIENCE)
            try:
                self._code = int(self._control.recv(16) or KILLED)
            except OSError:
                self._code = KILLED
            self.close()
        return self._code

    def wait(self) -> int:
        while (code := self.poll()) is None:
            self.has_exited(None)
        return code

    def close(self) -> None:
        """If it has no command, it ends."""
        self._command.close()
        self._control.close()
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1


class Standby:
    def __init__(self) -> None:
        self._server: _Server | None = None
        self._waiting: ForkedProcess | None = None
        self._left: list[str] = []
        """Control groups of commands that have ended; they are removed once their last process is gone."""

    def prepare(self) -> None:
        """Have a process wait for the next command; if that fails, the command is told."""
        self._left = leave_groups(self._left)
        if self._waiting is None:
            with suppress(OSError):
                self._waiting = self._fork()

    @asynccontextmanager
    async def launcher(self) -> AsyncGenerator[Launcher]:
        """Starts one command; when it has ended, the process for the next one is forked. ToolError if that fails."""
        try:
            process = await self._take()
        except OSError as error:
            raise ToolError(f"the command could not be started: {error.strerror or error}") from error
        try:
            yield process.launch
        finally:
            if process.is_waiting:  # its command could not be sent
                process.close()
            self._left += process.groups
            asyncio.get_running_loop().call_soon(self.prepare)

    async def _take(self) -> ForkedProcess:
        """The process that waits, or a new one."""
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            # It may have ended, because nothing was asked for long or something killed it.
            with suppress(OSError):
                await self._wait_ready(waiting)
                if self._server is not None and self._server.is_alive and not waiting.has_exited():
                    return waiting
                self._end(waiting)
        started = self._fork()
        await self._wait_ready(started)
        return started

    async def _wait_ready(self, process: ForkedProcess) -> None:
        try:
            await process.wait_ready()
        except BaseException:
            self._end(process)
            raise

    def close(self) -> None:
        """End everything that waits."""
        if self._waiting is not None:
            self._end(self._waiting)
            self._waiting = None
        if self._server is not None:
            self._server.close()
            self._server = None
        self._left = leave_groups(self._left)

    def _fork(self) -> ForkedProcess:
        if self._server is not None and not self._server.is_alive:
            self._server.close()
            self._server = None
        self._server = self._server or _Server()
        groups = make_groups(f"{os.getpid()}-{secrets.token_hex(4)}")
        try:
            return self._server.fork(groups)
        except OSError:
            self._left += groups
            raise

    def _end(self, process: ForkedProcess) -> None:
        process.close()
        self._left += process.groups


class _Server:
    """The process that forks the others."""

    def __init__(self) -> None:
        library_path = os.environ.get("LD_LIBRARY_PATH")
        with ExitStack() as unless_started:
            self._peer, theirs = _pair()
            unless_started.enter_context(self._peer)
            with theirs:
                self._process = subprocess.Popen(
                    FORK_SERVER,
                    cwd="/",
                    env={"LD_LIBRARY_PATH": library_path} if library_path else {},
                    stdin=theirs.fileno(),
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )
            unless_started.pop_all()

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def fork(self, groups: Sequence[str]) -> ForkedProcess:
        """OSError if it has ended."""
        message = "\0".join(("fork", *groups)).encode()
        with ExitStack() as unless_sent:
            (command, theirs), (control, reports) = _pair(), _pair()
            unless_sent.enter_context(command)
            unless_sent.enter_context(control)
            with theirs, reports:
                socket.send_fds(self._peer, [message], [theirs.fileno(), reports.fileno()])
            unless_sent.pop_all()
        control.setblocking(False)
        return ForkedProcess(groups, command, control)

    def close(self) -> None:
        """It would end by itself when the connection does, but killing it is quicker."""
        self._peer.close()
        self._process.kill()
        self._process.wait()


def _pair() -> tuple[socket.socket, socket.socket]:
    """Two ends of a connection for messages, which stay apart."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def _encode(words: Sequence[str], env: Mapping[bytes, bytes]) -> bytes:
    variables = [name + b"=" + value for name, value in env.items()]
    parts = [b"%d" % len(variables), *variables, *map(os.fsencode, words)]
    if any(b"\0" in part for part in parts):
        raise ValueError("embedded null byte")
    return b"\0".join(parts)


standby = Standby()
"""The one of this process."""
