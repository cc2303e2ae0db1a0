"""Processes that wait for confined commands, so that none waits for Python to start, a control group or namespaces.

One process has everything imported and forks the others (`fork_server.py`), each of which runs one command. Entering a
control group blocks in the kernel for milliseconds, longer on an idle machine.

Invariants: at most one process waits, for at most `IDLE_SECONDS`, and the next one is forked when its command has
ended; all of them end when this process does; if none waits, or the command needs the network, it gets a new one.
Nothing here blocks: a command is passed in a file in memory. It belongs to the thread of the event loop.
"""

import asyncio
import errno
import os
import secrets
import select
import socket
import subprocess
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress

from buddy.errors import ToolError
from buddy.targets.child import Streams
from buddy.targets.confine.limits import make_groups, remove_empty_groups
from buddy.targets.confine.methods import FORK_SERVER, LANDLOCK

Launcher = Callable[[Sequence[str], Mapping[bytes, bytes], Streams], "tuple[ForkedProcess, int]"]
IDLE_SECONDS = 600.0
START_SECONDS = 30.0
KILLED = -9
MAX_WORD = 128 * 1024
"""Bytes of one argument that Linux passes to a program."""


class ForkedProcess:
    """A process of the fork server, which leads its own session; it satisfies `child.Process`.

    It is in its control groups, or about to enter them, and waits for a command until it is sent one.
    """

    def __init__(self, groups: Sequence[str], command: socket.socket, control: socket.socket) -> None:
        self.groups = groups
        self.pid = 0
        self._command = command
        self._control = control
        self._code: int | None = None

    async def wait_ready(self) -> None:
        """Wait until it was forked; OSError if it was not."""
        if self.pid:
            return
        try:
            async with asyncio.timeout(START_SECONDS):
                answer = await asyncio.get_running_loop().sock_recv(self._control, 16)
        except TimeoutError:
            raise TimeoutError(errno.ETIMEDOUT, f"nothing happened for {START_SECONDS:g} s") from None
        if not answer:
            raise ConnectionResetError(errno.ECONNRESET, "the process that confines commands has ended")
        pid = int(answer)
        if pid < 0:
            raise OSError(-pid, os.strerror(-pid))
        self.pid = pid

    @property
    def is_waiting(self) -> bool:
        """Whether it can still get a command."""
        return not _has_news(self._command) and not _has_news(self._control)

    def launch(self, argv: Sequence[str], env: Mapping[bytes, bytes], streams: Streams) -> "tuple[ForkedProcess, int]":
        """Have it run a command line of Landlock's with these streams; OSError if it has ended."""
        held = os.memfd_create("request")
        try:
            os.pwrite(held, _encode(argv[len(LANDLOCK) :], env), 0)
            opened = [one if isinstance(one, int) else one.fileno() for one in streams]
            socket.send_fds(self._command, [b"x"], [held, *opened])
        finally:
            os.close(held)
        return self, os.dup(self._control.fileno())

    def poll(self) -> int | None:
        """Its exit code; None while it runs."""
        if self._code is None and _has_news(self._control):
            try:
                self._code = int(self._control.recv(16) or KILLED)
            except OSError:  # the server has ended
                self._code = KILLED
        return self._code

    def wait(self) -> int:
        self._control.setblocking(True)
        return int(self._control.recv(16) or KILLED)

    def close(self) -> None:
        """A process without a command exits then; one that has exited is reaped."""
        self._command.close()
        self._control.close()


class Standby:
    def __init__(self) -> None:
        self._server: _Server | None = None
        self._waiting: ForkedProcess | None = None
        self._idle: asyncio.TimerHandle | None = None
        self._active = 0
        self._is_closed = False
        self._left: list[str] = []
        """Control groups of commands that have ended; they are removed once their last process is gone."""

    def prepare(self) -> None:
        """Have a process wait for the next command, which reports it if this fails."""
        self._left = remove_empty_groups(self._left)
        if self._waiting is None and not self._is_closed:
            with suppress(OSError):
                self._waiting = self._fork()
                self._idle = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._end_all)

    @asynccontextmanager
    async def launcher(self, *, network: bool = False) -> AsyncGenerator[Launcher]:
        """Starts one command, ToolError if it cannot be started; then the process for the next one is forked."""
        self._is_closed = False
        self._active += 1
        try:
            process = await self._take(network=network)
            try:
                yield process.launch
            finally:
                self._end(process)
        finally:
            self._active -= 1
            if self._is_closed:
                self._end_all()
            else:
                # Not `call_soon`: what follows the command comes first.
                asyncio.get_running_loop().call_later(0, self.prepare)

    def close(self) -> None:
        """End everything when the last command has ended."""
        self._is_closed = True
        self._end_all()

    async def _take(self, *, network: bool) -> ForkedProcess:
        """The process that waits, or a new one."""
        if not network and (waiting := self._waiting) is not None:
            self._waiting = None
            self._stop_clock()
            with suppress(OSError):  # something may have killed it, or the server
                await self._wait_ready(waiting)
                if self._server is not None and self._server.is_alive and waiting.is_waiting:
                    return waiting
                self._end(waiting)
        try:
            try:
                return await self._fork_and_wait(network=network)
            except ConnectionError:  # the server has just ended
                self._end_server()
                return await self._fork_and_wait(network=network)
        except OSError as error:
            raise ToolError(f"the command could not be started: {error.strerror or error}") from error

    async def _fork_and_wait(self, *, network: bool) -> ForkedProcess:
        started = self._fork(network=network)
        await self._wait_ready(started)
        return started

    async def _wait_ready(self, process: ForkedProcess) -> None:
        try:
            await process.wait_ready()
        except BaseException:
            self._end(process)
            raise

    def _fork(self, *, network: bool = False) -> ForkedProcess:
        if self._server is not None and not self._server.is_alive:
            self._end_server()
        self._server = self._server or _Server()
        groups = make_groups(f"{os.getpid()}-{secrets.token_hex(4)}")
        try:
            return self._server.fork(groups, network=network)
        except OSError:
            self._left += groups
            raise

    def _end(self, process: ForkedProcess) -> None:
        process.close()
        self._left += process.groups

    def _end_all(self) -> None:
        """Except for commands that run, and what they need."""
        self._stop_clock()
        if self._waiting is not None:
            self._end(self._waiting)
            self._waiting = None
        if not self._active:
            self._end_server()
        self._left = remove_empty_groups(self._left)

    def _stop_clock(self) -> None:
        if self._idle is not None:
            self._idle.cancel()

    def _end_server(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None


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

    def fork(self, groups: Sequence[str], *, network: bool) -> ForkedProcess:
        """OSError if it has ended."""
        message = "\0".join(("network" if network else "none", *groups)).encode()
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


def _has_news(connection: socket.socket) -> bool:
    """Whether there is a message, or the other end is closed."""
    news = select.poll()  # not `select`, which cannot take descriptors above 1023
    news.register(connection, select.POLLIN)
    return bool(news.poll(0))


def _pair() -> tuple[socket.socket, socket.socket]:
    """Two ends of a connection for messages, which stay apart."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def _encode(words: Sequence[str], env: Mapping[bytes, bytes]) -> bytes:
    variables = [name + b"=" + value for name, value in env.items()]
    parts = [b"%d" % len(variables), *variables, *map(os.fsencode, words)]
    if any(b"\0" in part for part in parts):
        raise ValueError("embedded null byte")
    if any(len(part) >= MAX_WORD for part in parts):
        raise OSError(errno.E2BIG, os.strerror(errno.E2BIG))
    return b"\0".join(parts)


standby = Standby()
"""The one of this process."""
