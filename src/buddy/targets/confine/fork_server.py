"""Fork processes that wait for a confined command: Python is started and everything imported once, not per command.

`serve` receives messages on its standard input, a socket. Each has two more sockets, COMMAND and CONTROL, and texts
separated by NUL: `network` or `none`, and the names of control groups. For each message it forks a process and writes
the pid to CONTROL, or a negative error number; once the process has exited, its exit code. The process is reaped when
the other end of CONTROL is closed, so that its pid is not used again until then.

A forked process enters the groups and forks another one in new namespaces, which receives one message on COMMAND: the
open files REQUEST, STDIN, STDOUT and STDERR. REQUEST has the environment, a list that begins with its length, and the
words for `landlock.run`, as texts separated by NUL (`standby.py` writes both).

Invariants: everything ends when the peer is gone. It uses the standard library alone, because it runs without any
other.
"""

import os
import select
import signal
import socket
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

    from buddy.targets.confine.landlock import isolate, pass_on, refuse, run
    from buddy.targets.confine.supervisor import main as supervise
else:  # by their files alone: where this runs, there is no package
    from landlock import isolate, pass_on, refuse, run
    from supervisor import main as supervise

MAX_MESSAGE = 16 * 1024
# Whoever stops everything around it stops the peer, too, which then says when this ends.
IGNORED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def serve() -> "NoReturn":
    peer = socket.socket(fileno=os.dup(0))
    nothing = os.open("/dev/null", os.O_RDONLY)
    os.dup2(nothing, 0)  # no other process may have the socket
    os.close(nothing)
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    _Server(peer).serve()
    os._exit(0)


class _Server:
    def __init__(self, peer: socket.socket) -> None:
        self._peer = peer
        self._news = select.poll()
        self._news.register(peer, select.POLLIN)
        self._running: dict[int, tuple[int, socket.socket]] = {}  # by the handle of a process: its pid and CONTROL
        self._exited: dict[int, tuple[int, socket.socket]] = {}  # by CONTROL: the pid that it is kept for

    def serve(self) -> None:
        while True:
            for opened, _ in self._news.poll():
                if opened in self._running:
                    self._note_exit(opened)
                elif opened in self._exited:
                    self._reap(opened)
                elif not self._receive():
                    return

    def _receive(self) -> bool:
        """Whether there was a message."""
        message, opened, _, _ = socket.recv_fds(self._peer, MAX_MESSAGE, 2)
        sockets = [socket.socket(fileno=one) for one in opened]
        match sockets:
            case [command, control]:
                network, *groups = message.decode().split("\0")
                self._fork(command, control, groups, network=network == "network")
            case _:  # the peer sees them close
                for one in sockets:
                    one.close()
        return bool(message)

    def _fork(self, command: socket.socket, control: socket.socket, groups: "Sequence[str]", *, network: bool) -> None:
        server = os.getpid()
        try:
            pid = os.fork()
            if pid == 0:
                self._close()
                control.close()
                _begin(command, groups, server, network=network)
            handle = os.pidfd_open(pid)
        except OSError as error:  # no processes or descriptors left
            with suppress(OSError):
                control.send(b"%d" % -(error.errno or 1))
            command.close()  # so that a process that was forked ends
            control.close()
            return
        command.close()
        with suppress(OSError):  # the peer has given up on it
            control.send(b"%d" % pid)
        self._running[handle] = pid, control
        self._news.register(handle, select.POLLIN)

    def _note_exit(self, handle: int) -> None:
        pid, control = self._running.pop(handle)
        self._news.unregister(handle)
        ended = os.waitid(os.P_PIDFD, handle, os.WEXITED | os.WNOWAIT)
        os.close(handle)
        code = ended.si_status if ended and ended.si_code == os.CLD_EXITED else -(ended.si_status if ended else 9)
        with suppress(OSError):  # as above; the socket reports that next
            control.send(b"%d" % code)
        self._exited[control.fileno()] = pid, control
        self._news.register(control, select.POLLIN)

    def _reap(self, opened: int) -> None:
        """Readable means closed: the other end never sends."""
        pid, control = self._exited.pop(opened)
        self._news.unregister(opened)
        control.close()
        os.waitpid(pid, 0)

    def _close(self) -> None:
        """Close what a new process must not inherit."""
        self._peer.close()
        for _, control in (*self._running.values(), *self._exited.values()):
            control.close()
        for handle in self._running:
            os.close(handle)


def _begin(command: socket.socket, groups: "Sequence[str]", server: int, *, network: bool) -> "NoReturn":
    """Be a process of its own, and wait for the command in another one."""
    for number in IGNORED:
        signal.signal(number, signal.SIG_DFL)
    os.setsid()
    problem: OSError | None = None
    try:
        _enter(groups)
        child = isolate(server, network=network)
        if child:
            command.close()
            pass_on(child)
    except OSError as error:
        problem = error
    words = _wait_for_command(command)
    if problem is not None:
        refuse(problem)
    run(words, supervise, network=network)


def _enter(groups: "Sequence[str]") -> None:
    for group in groups:
        try:
            with open(f"{group}/cgroup.procs", "wb") as file:  # noqa: PTH123 - no pathlib in here
                file.write(b"0")
        except OSError as error:
            raise OSError(error.errno, f"{group}: {error.strerror}") from None


def _wait_for_command(peer: socket.socket) -> "list[str]":
    """The words of the command, whose environment and open files this process has from now on."""
    with peer:
        message, opened, _, _ = socket.recv_fds(peer, 1, 4)
    if not message or len(opened) != 4:
        os._exit(126)  # no command came
    request, *streams = opened
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    with open(request, "rb") as file:  # noqa: PTH123 - a descriptor
        count, *words = file.read().split(b"\0")
    os.environb.clear()
    for variable in words[: int(count)]:
        name, _, value = variable.partition(b"=")
        os.environb[name] = value
    return [os.fsdecode(word) for word in words[int(count) :]]
