"""The blocking client: one socket, no event loop, and no import that a request does not need.

Replies are plain JSON; events are typed, and their types are imported with the first event. So a message is sent before
anything else is loaded.

Invariants: as in `core.py`; after a lost connection it tries to reconnect for up to `PATIENCE` seconds; other inputs (a
keyboard, a signal) are descriptors in `watched`, polled together with the connection.
"""

import json
import select
import socket
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, TypeVar

from buddy.client.core import Core, Fields, RequestResult, refusal_of
from buddy.client.steps import Ask
from buddy.errors import ProtocolError, UserError
from buddy.protocol.basics import VERSION

if TYPE_CHECKING:
    from buddy.protocol.envelopes import Event

PATIENCE = 30.0
FIRST_WAIT, LONGEST_WAIT = 0.02, 1.0
PIECE = 256 * 1024
NOT_REPEATED = ("start_session",)  # sending it twice would start two sessions

Result = TypeVar("Result")


def connect_unix(path: str) -> socket.socket | None:
    """A connection to the daemon; None if it is not running."""
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(path)
    except OSError:
        connection.close()
        return None
    return connection


class BlockingClient:
    def __init__(
        self,
        connection: socket.socket,
        name: str,
        version: str,
        reconnect: Callable[[], socket.socket | None] | None = None,
    ) -> None:
        self.watched: dict[int, Callable[[], None]] = {}
        self._core: Core[Fields] = Core(name, version, _spoken_version)
        self._connection = connection
        self._reconnect = reconnect
        self._is_gone = False
        self._has_heard = False
        self._deadline = 0.0
        self._rest = b""
        self._lines: deque[bytes] = deque()
        self._early: deque[bytes] = deque()  # events that came while an answer was awaited
        self._core.connect()

    def close(self) -> None:
        self._connection.close()

    # --- requests ---------------------------------------------------------------------------------------------------

    def ask(self, kind: str, payload: Fields, session_id: str | None = None) -> Fields:
        """Send a request and wait for its reply; a refusal is a ProtocolError."""
        answers: list[RequestResult[Fields]] = []
        self._core.request(kind, payload, answers.append, session_id, repeat=kind not in NOT_REPEATED)
        while not answers:
            line = self._next_line()
            if line is not None:
                self._handle_line(line)
        error, reply = answers[0].error, answers[0].payload
        if isinstance(error, ConnectionError):
            hint = "it is stopping or has too many clients; try again, and see buddy daemon logs"
            raise UserError("the daemon closed the connection", hint=hint, exit_code=75) from error
        if error is not None or reply is None:
            raise error or refusal_of(None)
        return reply

    def tell(self, kind: str, payload: Fields, session_id: str, on_refusal: Callable[[ProtocolError], None]) -> None:
        """Send a request without waiting; its refusal is reported while events are awaited."""

        def on_result(answer: RequestResult[Fields]) -> None:
            if isinstance(answer.error, ProtocolError):
                on_refusal(answer.error)

        self._core.request(kind, payload, on_result, session_id, repeat=True)

    def perform(self, steps: Generator[Ask, Fields, Result]) -> Result:
        """Send the requests that the steps yield, until they have a result (`steps.py`)."""
        try:
            wanted = next(steps)
            while True:
                try:
                    reply = self.ask(*wanted)
                except ProtocolError as error:
                    wanted = steps.throw(error)
                else:
                    wanted = steps.send(reply)
        except StopIteration as end:
            return end.value

    def start_session(self, wanted: Fields) -> str:
        started = self.ask("start_session", wanted)
        self._core.follow(started["sessionId"], started["attachToken"])
        return started["sessionId"]

    def attach(self, session_id: str) -> Fields:
        reply = self.ask("attach_session", {"sessionId": session_id, "lastSeenSeq": 0}, session_id)
        self._core.follow(session_id, None)
        return reply

    # --- events -----------------------------------------------------------------------------------------------------

    def events(self) -> "Iterator[Event]":
        """Every event, once and in order, until reconnecting is given up."""
        from buddy.protocol.envelopes import Event, parse_incoming

        while True:
            line = self._early.popleft() if self._early else self._next_line()
            if line is None:
                if self._is_gone:
                    return
                continue
            match parse_incoming(line):
                case Event() as event:
                    if self._core.is_new(event.session_id, event.seq):
                        yield event
                case _:
                    self._handle_line(line)

    # --- the connection ---------------------------------------------------------------------------------------------

    def _handle_line(self, line: bytes) -> None:
        """Deliver a response to its request; queue an event for `events`."""
        found: Fields = json.loads(line)
        if found["v"] != VERSION:
            raise ProtocolError("UNSUPPORTED_PROTOCOL_VERSION", f"this client speaks {VERSION}, not {found['v']!r}")
        if found["kind"] != "response":
            self._early.append(line)
            return
        error = None if found["ok"] and not found.get("error") else refusal_of(found.get("error"))
        self._core.answer(found["requestId"], None if error else found["payload"], error)
        refusal = self._core.refusal
        if refusal is not None and refusal.code == "UNSUPPORTED_PROTOCOL_VERSION":
            raise refusal

    def _next_line(self) -> bytes | None:
        """The next line; None if something else happened: a watched descriptor, a lost connection."""
        if self._lines:
            return self._lines.popleft()
        if not self._send() or not self._receive() or self._core.refusal is not None:
            self._connect_again()
        return self._lines.popleft() if self._lines else None

    # Caught only here, where it means that the daemon is gone: BrokenPipeError on our stdout is a ConnectionError, too.
    def _send(self) -> bool:
        if self._core.outgoing:
            data = b"".join(self._core.outgoing)
            self._core.outgoing.clear()
            try:
                self._connection.sendall(data)
            except ConnectionError:
                return False
        return True

    def _receive(self) -> bool:
        """Wait for lines or a watched descriptor; False at the end of the connection."""
        waiting = select.poll()
        for descriptor in (self._connection.fileno(), *self.watched):
            waiting.register(descriptor, select.POLLIN)
        ready = {descriptor for descriptor, _ in waiting.poll(None if self._has_heard else PATIENCE * 1000)}
        if not ready:
            hint = "it hangs, or this machine is very busy; see buddy daemon logs"
            raise UserError(f"no answer from the daemon within {PATIENCE:.0f} s", hint=hint, exit_code=75)
        for descriptor in ready & self.watched.keys():
            self.watched[descriptor]()
        if self._connection.fileno() not in ready:
            return True
        try:
            data = self._connection.recv(PIECE)
        except ConnectionError:
            return False
        self._has_heard = True  # from now on the run's own deadlines apply
        *lines, self._rest = (self._rest + data).split(b"\n")
        self._lines.extend(line for line in lines if line)
        return bool(data)

    def _connect_again(self) -> None:
        """Reconnect, or give up after `PATIENCE` seconds."""
        if self._core.is_joined:  # a connection that could not be joined does not restart the clock
            self._deadline = time.monotonic() + PATIENCE
        self._connection.close()
        self._core.disconnect()
        refusal, wait = self._core.refusal, FIRST_WAIT
        may_return = refusal is None or refusal.retryable  # otherwise the session or our access to it is gone
        while may_return and self._reconnect is not None and time.monotonic() < self._deadline:
            time.sleep(wait)
            wait = min(wait * 2, LONGEST_WAIT)
            connection = self._reconnect()
            if connection is not None:
                self._connection, self._has_heard, self._rest = connection, False, b""
                self._core.connect()
                return
        self._is_gone = True
        self._core.disconnect(for_good=True)


def _spoken_version(reply: Fields) -> str:
    return reply["protocolVersion"]
