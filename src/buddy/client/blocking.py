"""The blocking client: one socket, no event loop, and no import that a request does not need.

Replies and events are plain JSON; the types of events are for the type checker (`json_events.py`).

Invariants: as in `core.py`; after a lost connection it tries to reconnect for up to `PATIENCE` seconds; other inputs (a
keyboard, a signal) are descriptors in `watched`, polled together with the connection.
"""

import json
import select
import socket
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, TypeVar, cast

from buddy.client.core import PATIENCE, Backoff, Core, Fields, RequestResult, refusal_of
from buddy.client.steps import Ask
from buddy.errors import ProtocolError, UserError
from buddy.protocol.basics import VERSION

if TYPE_CHECKING:
    from buddy.protocol.json_events import JsonEvent

    ReceivedEvent = tuple[JsonEvent, bytes]

PIECE = 256 * 1024
IDLE_SECONDS = 0.25
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
        gather: float = 0.0,
    ) -> None:
        """With `gather`, events that arrive up to that many seconds after the first are read together with it."""
        self.watched: dict[int, Callable[[], None]] = {}
        self.on_idle: Callable[[], None] | None = None  # called again and again while nothing happens
        self._core: Core[Fields] = Core(name, version, _spoken_version, _gap_end)
        self.offer = self._core.offer
        self._connection = connection
        self._reconnect = reconnect
        self._gather = gather
        self._is_gone = False
        self._has_heard = False
        self._deadline = 0.0
        self._rest = b""
        self._lines: deque[bytes] = deque()
        self._early: deque[ReceivedEvent] = deque()  # events that came while an answer was awaited
        self._core.connect()

    def close(self) -> None:
        self._connection.close()

    @property
    def is_shared(self) -> bool:
        """Whether it speaks to a daemon, which others reach, too."""
        return self._reconnect is not None

    # --- requests ---------------------------------------------------------------------------------------------------

    def hello(self) -> Fields:
        """The runtime's reply to hello; empty if it refused."""
        while self._core.welcome is None and self._core.refusal is None and not self._is_gone:
            line = self._next_line()
            event = self._handle_line(line) if line is not None else None
            if event is not None:
                self._early.append(event)
        return self._core.welcome or {}

    def ask(self, kind: str, payload: Fields, session_id: str | None = None) -> Fields:
        """Send a request and wait for its reply; a refusal is a ProtocolError."""
        answers: list[RequestResult[Fields]] = []
        self._core.request(kind, payload, answers.append, session_id, repeat=kind not in NOT_REPEATED)
        while not answers:
            line = self._next_line()
            event = self._handle_line(line) if line is not None else None
            if event is not None:
                self._early.append(event)
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

    def attach(self, session_id: str, after: int = 0) -> Fields:
        """Receive the events after `after`, and those to come."""
        self._core.seek(session_id, after)
        reply = self.ask("attach_session", self._core.attach_payload(session_id, after), session_id)
        self._core.follow(session_id, None)
        return reply

    # --- events -----------------------------------------------------------------------------------------------------

    def events(self) -> "Iterator[ReceivedEvent]":
        """Every event, once and in order, each with its line as it came, until reconnecting is given up."""
        while True:
            if self._early:
                received = self._early.popleft()
            elif (line := self._next_line(self._gather)) is not None:
                received = self._handle_line(line)
            elif self._is_gone:
                return
            else:
                continue
            if received is not None and self._core.is_new(received[0]["sessionId"], received[0]["seq"]):
                yield received

    # --- the connection ---------------------------------------------------------------------------------------------

    def _handle_line(self, line: bytes) -> "ReceivedEvent | None":
        """Deliver a response to its request; return an event."""
        found = _parse(line)
        if found["kind"] != "response":
            return cast("JsonEvent", found), line
        error = None if found["ok"] and not found.get("error") else refusal_of(found.get("error"))
        self._core.answer(found["requestId"], None if error else found["payload"], error)
        refusal = self._core.refusal
        if refusal is not None and refusal.code == "UNSUPPORTED_PROTOCOL_VERSION":
            raise refusal
        return None

    def _next_line(self, gather: float = 0.0) -> bytes | None:
        """The next line; None if something else happened: a watched descriptor, a lost connection."""
        if self._lines:
            return self._lines.popleft()
        if not self._send() or not self._receive(gather) or self._core.refusal is not None:
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

    def _receive(self, gather: float) -> bool:
        """Wait for lines or a watched descriptor; False at the end of the connection."""
        waiting = select.poll()
        for descriptor in (self._connection.fileno(), *self.watched):
            waiting.register(descriptor, select.POLLIN)
        ready = self._poll(waiting)
        if not ready:
            hint = "it hangs, or this machine is very busy; see buddy daemon logs"
            raise UserError(f"no answer from the daemon within {PATIENCE:.0f} s", hint=hint, exit_code=75)
        for descriptor in ready & self.watched.keys():
            self.watched[descriptor]()
        if self._connection.fileno() not in ready:
            return True
        if gather:
            time.sleep(gather)
        try:
            data = self._connection.recv(PIECE)
        except ConnectionError:
            return False
        self._has_heard = True  # from now on the run's own deadlines apply
        *lines, self._rest = (self._rest + data).split(b"\n")
        self._lines.extend(line for line in lines if line)
        return bool(data)

    def _poll(self, waiting: select.poll) -> set[int]:
        """The descriptors that are ready; none if the daemon has not answered for `PATIENCE` seconds."""
        until = float("inf") if self._has_heard else time.monotonic() + PATIENCE
        while True:
            seconds = until - time.monotonic() if self.on_idle is None else IDLE_SECONDS
            ready = waiting.poll(seconds * 1000 if seconds < float("inf") else None)
            if ready or self.on_idle is None or time.monotonic() >= until:
                return {descriptor for descriptor, _ in ready}
            self.on_idle()

    def _connect_again(self) -> None:
        """Reconnect, or give up after `PATIENCE` seconds."""
        if self._core.is_joined:  # a connection that could not be joined does not restart the clock
            self._deadline = time.monotonic() + PATIENCE
        self._connection.close()
        self._core.disconnect()
        refusal, backoff = self._core.refusal, Backoff()
        may_return = refusal is None or refusal.retryable  # otherwise the session or our access to it is gone
        while may_return and self._reconnect is not None and time.monotonic() < self._deadline:
            time.sleep(backoff.next())
            connection = self._reconnect()
            if connection is not None:
                self._connection, self._has_heard, self._rest = connection, False, b""
                self._core.connect()
                return
        self._is_gone = True
        self._core.disconnect(for_good=True)


def _spoken_version(reply: Fields) -> str:
    return reply["protocolVersion"]


def _gap_end(attached: Fields) -> int | None:
    return attached["replay"]["fromSeq"] if attached["replay"]["gap"] else None


def _parse(line: bytes) -> Fields:
    """Read one line that the runtime sent."""
    try:
        found: Fields = json.loads(line)
        version = found["v"]
    except (ValueError, RecursionError, LookupError, TypeError) as error:
        raise ProtocolError("INVALID_REQUEST", f"not a response or an event: {error}") from error
    if version != VERSION:
        raise ProtocolError("UNSUPPORTED_PROTOCOL_VERSION", f"this client speaks {VERSION}, not {version!r}")
    return found
