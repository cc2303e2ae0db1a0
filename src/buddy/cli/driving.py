"""What moves the steps of a command: lines over the daemon's socket. (`inprocess.py` moves them without a daemon.)

What always holds: the first interrupt cancels the run, the second ends the waiting; a signal that was ignored when we
were started stays ignored; a daemon that was restarted is found again, for as long as `PATIENCE`.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from socket import AF_UNIX, SOCK_CLOEXEC, SOCK_STREAM, socket

from buddy.cli.following import Following
from buddy.cli.talk import Talk
from buddy.errors import UserError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Self

    from buddy.cli.talk import Steps

    Handler = Callable[[int, FrameType | None], object] | int | None

STOPS: dict[int, str] = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated", signal.SIGHUP: "hangup"}
PATIENCE = 30.0
FIRST_WAIT, LONGEST_WAIT = 0.02, 1.0
_PIECE = 256 * 1024


class Errand:
    """The steps of one command, and what can happen to them from outside."""

    def __init__(self, talk: Talk, following: Following, steps: Steps[int]) -> None:
        self.talk = talk
        self.following = following
        self.code: int | None = None
        self._steps = steps
        self._is_cancelling = False
        self.feed(None)  # to the first wait

    @property
    def is_asking(self) -> bool:
        return bool(self.following.question)

    def feed(self, line: bytes | None) -> None:
        try:
            self._steps.send(line)
        except StopIteration as end:
            self.code = end.value

    def stop(self, reason: str) -> None:
        """An interrupt: cancel the run, or give up waiting for its end."""
        run_id = self.following.run_id
        if self._is_cancelling or run_id is None:
            raise KeyboardInterrupt
        self._is_cancelling = True
        wish = {"sessionId": self.following.session_id, "runId": run_id, "reason": reason}
        self.talk.tell("cancel_run", wish, is_owed=False)  # a refusal means that the run is over already

    def read_answer(self) -> None:
        """The person typed something while a question was open."""
        try:
            typed = os.read(sys.stdin.fileno(), 4096).decode(errors="replace")
        except OSError:
            typed = ""  # the terminal is gone
        self.following.answer(typed)


def caught(hear: Callable[[int, FrameType | None], object]) -> dict[int, Handler]:
    """Have the signals heard that would stop us; gives what heard them before."""
    return {number: signal.signal(number, hear) for number in STOPS if signal.getsignal(number) != signal.SIG_IGN}


def let_go(before: dict[int, Handler]) -> None:
    for number, handler in before.items():
        signal.signal(number, handler)


def find_daemon(path: str) -> socket | None:
    """A connection to the daemon, if one runs."""
    connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC)
    try:
        connection.connect(path)
    except OSError:
        connection.close()
        return None
    return connection


def over_socket(path: str, connection: socket, errand: Errand) -> int:
    """Do the errand with the daemon; gives the exit code."""
    with _Signals(errand) as signals:
        while errand.code is None:
            try:
                _converse(connection, errand, signals)
            finally:
                connection.close()
            if errand.code is None:
                again = _connect_again(path)
                if again is None:
                    errand.feed(None)
                    break
                connection = again
                errand.talk.rejoin()
    return 1 if errand.code is None else errand.code


def _converse(connection: socket, errand: Errand, signals: _Signals) -> None:
    """Exchange lines until the errand is done or the connection ends."""
    rest, patience = b"", PATIENCE * 1000
    while errand.code is None and _send(connection, errand.talk):
        signals.catch_once_there_is_a_run()
        waiting = select.poll()
        for descriptor in (connection.fileno(), signals.descriptor, *([0] if errand.is_asking else [])):
            waiting.register(descriptor, select.POLLIN)
        ready = {descriptor for descriptor, _ in waiting.poll(patience)}
        if not ready:
            hint = "it hangs, or this machine is very busy; buddy daemon logs may say why"
            raise UserError("the daemon does not answer", hint=hint, exit_code=75)
        if signals.descriptor in ready:
            signals.drain()
        if errand.is_asking and 0 in ready:
            errand.read_answer()
        if connection.fileno() in ready:
            if not (data := _receive(connection)):
                return
            patience = None  # it lives; from now on the run has its own deadlines
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                if line and errand.code is None:
                    errand.feed(line)


# Only here does a ConnectionError mean that the daemon is gone: a reader of our output that left is one as well.
def _send(connection: socket, talk: Talk) -> bool:
    if talk.outgoing:
        data = bytes(talk.outgoing)
        talk.outgoing.clear()
        try:
            connection.sendall(data)
        except ConnectionError:
            return False
    return True


def _receive(connection: socket) -> bytes:
    try:
        return connection.recv(_PIECE)
    except ConnectionError:
        return b""


def _connect_again(path: str) -> socket | None:
    deadline, wait = time.monotonic() + PATIENCE, FIRST_WAIT
    while time.monotonic() < deadline:
        time.sleep(wait)
        wait = min(wait * 2, LONGEST_WAIT)
        if (connection := find_daemon(path)) is not None:
            return connection
    return None


class _Signals:
    """Interrupts heard while we wait: they are written to a pipe, which is waited for with the rest."""

    def __init__(self, errand: Errand) -> None:
        self._errand = errand
        self._before: dict[int, Handler] = {}
        self.descriptor, self._end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        let_go(self._before)
        if self._before:
            signal.set_wakeup_fd(-1)
        os.close(self.descriptor)
        os.close(self._end)

    def catch_once_there_is_a_run(self) -> None:
        if self._before or self._errand.following.run_id is None:
            return
        signal.set_wakeup_fd(self._end)
        self._before = caught(self._stop)

    def _stop(self, number: int, _: FrameType | None) -> None:
        self._errand.stop(STOPS[number])

    def drain(self) -> None:
        os.read(self.descriptor, 4096)
