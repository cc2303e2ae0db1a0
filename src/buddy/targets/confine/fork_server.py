"""Fork processes that wait for a confined command: Python is started and everything imported once, not per command.

`serve` gets messages on its standard input, a socket. Each has two more sockets, COMMAND and CONTROL, and the names of
control groups, separated by NUL. For each it forks a process and writes its pid to CONTROL; once that has exited, its
exit code; it reaps it when the other end of CONTROL is closed, so that until then the pid is not used again.

The process enters the groups and gets one message on COMMAND: the open files REQUEST, STDIN, STDOUT and STDERR. REQUEST
has the environment, a list that begins with its length, and the words for `landlock.main`, as texts separated by NUL
(`standby.py` writes both).

Invariants: everything ends when the peer is gone, and when nothing was asked of it for `IDLE_SECONDS`. It uses the
standard library alone, because it runs without any other.
"""

import os
import select
import socket
import sys
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import NoReturn

IDLE_SECONDS = 600
MAX_MESSAGE = 16 * 1024


def serve(run: "Callable[[Sequence[str]], NoReturn]") -> "NoReturn":
    """`run` confines the process and becomes the command."""
    _Server(socket.socket(fileno=os.dup(0)), run).serve()
    os._exit(0)


class _Server:
    def __init__(self, peer: socket.socket, run: "Callable[[Sequence[str]], NoReturn]") -> None:
        self._peer = peer
        self._run = run
        self._news = select.poll()
        self._news.register(peer, select.POLLIN)
        self._running: dict[int, tuple[int, socket.socket]] = {}  # by the handle of a process: its pid and CONTROL
        self._exited: dict[int, tuple[int, socket.socket]] = {}  # by CONTROL: the pid that it is kept for

    def serve(self) -> None:
        while True:
            found = self._news.poll(None if self._running else IDLE_SECONDS * 1000)
            if not found and not self._running:
                return
            for opened, _ in found:
                if opened in self._running:
                    self._note_exit(opened)
                elif opened in self._exited:
                    self._reap(opened)
                elif not self._fork():
                    return

    def _fork(self) -> bool:
        """Whether there was a message."""
        message, opened, _, _ = socket.recv_fds(self._peer, MAX_MESSAGE, 2)
        if not message:
            return False
        command, control = (socket.socket(fileno=one) for one in opened)
        server = os.getpid()
        try:
            pid = os.fork()
        except OSError:  # too many processes: the closed sockets tell
            command.close()
            control.close()
            return True
        if pid == 0:
            self._close()
            control.close()
            os.setsid()
            words = _wait_for_command(command, message.decode().split("\0")[1:])
            if os.getppid() != server:
                os._exit(1)  # nobody would hear of its end, and it would not end with its parent
            self._run(words)
        command.close()
        with suppress(OSError):  # as above
            control.send(b"%d" % pid)
        handle = os.pidfd_open(pid)
        self._running[handle] = pid, control
        self._news.register(handle, select.POLLIN)
        return True

    def _note_exit(self, handle: int) -> None:
        pid, control = self._running.pop(handle)
        self._news.unregister(handle)
        ended = os.waitid(os.P_PIDFD, handle, os.WEXITED | os.WNOWAIT)
        os.close(handle)
        code = ended.si_status if ended and ended.si_code == os.CLD_EXITED else -(ended.si_status if ended else 9)
        with suppress(OSError):  # nobody waits for it; the socket reports that next
            control.send(b"%d" % code)
        self._exited[control.fileno()] = pid, control
        self._news.register(control, select.POLLIN)

    def _reap(self, opened: int) -> None:
        """The other end was closed, as nothing is ever sent from there."""
        pid, control = self._exited.pop(opened)
        self._news.unregister(opened)
        control.close()
        os.waitpid(pid, 0)

    def _close(self) -> None:
        """A new process has none of this."""
        self._peer.close()
        for _, control in (*self._running.values(), *self._exited.values()):
            control.close()
        for handle in self._running:
            os.close(handle)


def _wait_for_command(peer: socket.socket, groups: "Sequence[str]") -> "list[str]":
    """The words of the command, whose environment and open files this process has from now on."""
    problem = _enter(groups)
    with peer:
        request, *streams = _receive(peer)
    for number, opened in enumerate(streams):
        os.dup2(opened, number)
        os.close(opened)
    if problem:
        sys.stderr.write(f"the command could not be confined: {problem}\n")
        sys.stderr.flush()
        os._exit(126)
    with open(request, "rb") as file:  # noqa: PTH123 - a descriptor
        count, *words = file.read().split(b"\0")
    os.environb.clear()
    for variable in words[: int(count)]:
        name, _, value = variable.partition(b"=")
        os.environb[name] = value
    return [os.fsdecode(word) for word in words[int(count) :]]


def _enter(groups: "Sequence[str]") -> str:
    """What prevented it; empty if nothing did."""
    for group in groups:
        try:
            with open(f"{group}/cgroup.procs", "wb") as file:  # noqa: PTH123 - no pathlib in here
                file.write(b"0")
        except OSError as error:
            return f"{group}: {error.strerror}"
    return ""


def _receive(peer: socket.socket) -> "list[int]":
    news = select.poll()
    news.register(peer, select.POLLIN)
    content, opened, _, _ = socket.recv_fds(peer, 1, 4) if news.poll(IDLE_SECONDS * 1000) else (b"", [], 0, None)
    if not content:
        os._exit(0)
    return opened
