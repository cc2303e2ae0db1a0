"""The client's side of the protocol without I/O: ids, answers, cursors, and how a new connection starts.

A driver moves bytes: it sends the lines in `outgoing`, parses what arrives, and passes it to `answer` and `is_new`.
Payloads are opaque here, so that one core serves typed and untyped drivers (`client.py`, `blocking.py`).

Invariants: an event is new only once, even if delivered twice or again after a reconnect; every request is answered
exactly once, with a payload or an error; after a lost connection a request is resent only if its sender asked for it.
"""

import json
from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

from buddy.errors import ProtocolError
from buddy.protocol.basics import VERSION, Ulids

Payload = TypeVar("Payload")
Fields = dict[str, Any]

PATIENCE = 30.0
"""The seconds that a driver waits for the first answer, and tries to reconnect."""
FIRST_WAIT, LONGEST_WAIT = 0.02, 1.0
CAPABILITIES = ("stream_tokens", "approvals", "replay_attach")


class Backoff:
    """The seconds to wait between attempts to connect: they double, up to a limit."""

    def __init__(self) -> None:
        self._seconds = FIRST_WAIT

    def next(self) -> float:
        seconds = self._seconds
        self._seconds = min(seconds * 2, LONGEST_WAIT)
        return seconds


class RequestResult(NamedTuple, Generic[Payload]):
    """The outcome of a request: its reply's payload, or why there is none."""

    payload: Payload | None
    error: Exception | None = None


OnAnswer = Callable[[RequestResult[Payload]], None]


class _Pending(NamedTuple):
    line: bytes
    on_answer: Callable[[RequestResult[Any]], None]
    repeat: bool


class Core(Generic[Payload]):
    """One client, over any number of connections, one after another."""

    def __init__(
        self,
        name: str,
        version: str,
        spoken_version: Callable[[Payload], str],
        gap_end: Callable[[Payload], int | None],
        new_id: Callable[[str], str] | None = None,
    ) -> None:
        """`spoken_version` reads the runtime's protocol version from its reply to `hello`; `gap_end` reads the seq at
        which it goes on after a gap from its reply to an attach, None without a gap."""
        self.outgoing: list[bytes] = []
        self.is_joined = False  # whether hello and every attach of this connection were answered
        self.refusal: ProtocolError | None = None  # why this connection could not be joined
        self.welcome: Payload | None = None  # the runtime's reply to hello
        self._endpoint: Fields | None = None
        self._hello = {"clientName": name, "clientVersion": version, "capabilities": CAPABILITIES}
        self._spoken_version = spoken_version
        self._gap_end = gap_end
        self._new_id = new_id or Ulids()
        self._pending: dict[str, _Pending] = {}
        self._joining: dict[str, str | None] = {}
        """What begins this connection: hello, which has no session, and an attach to each that is followed."""
        self._tokens: dict[str, str | None] = {}
        self._cursors: dict[str, int] = {}
        self._attaching: dict[str, str] = {}
        """Sessions by the request that attaches to them: until its answer, events come from an earlier attachment."""

    def connect(self) -> None:
        """A connection was made: say hello, attach to every session from its cursor, and resend pending requests."""
        self.outgoing.clear()
        self._joining.clear()
        self.is_joined, self.refusal = False, None
        self._join("hello", self._hello)
        for session_id, token in self._tokens.items():
            place = self.attach_payload(session_id, self._cursors.get(session_id, 0))
            self._join("attach_session", {**place, "attachToken": token} if token else place, session_id)
        self.outgoing += [pending.line for pending in self._pending.values()]

    def offer(self, endpoint: Fields) -> None:
        """Send what this client's environment says with every attach, also after a lost connection."""
        self._endpoint = endpoint

    def attach_payload(self, session_id: str, after: int) -> Fields:
        place: Fields = {"sessionId": session_id, "lastSeenSeq": after}
        return place if self._endpoint is None else {**place, "options": {"endpoint": self._endpoint}}

    def disconnect(self, *, for_good: bool = False) -> None:
        """The connection was lost: requests that will not be resent fail; with `for_good`, all do."""
        self.is_joined = False
        lost = [key for key, pending in self._pending.items() if for_good or not pending.repeat]
        for request_id in lost:
            self.answer(request_id, None, ConnectionResetError("the connection was lost"))

    def refuse(self, error: ProtocolError) -> None:
        """What arrives cannot be understood: this connection cannot be used."""
        self.refusal = self.refusal or error
        self.is_joined = False

    def request(
        self,
        kind: str,
        payload: Fields | bytes,
        on_answer: OnAnswer[Payload],
        session_id: str | None = None,
        *,
        repeat: bool = False,
    ) -> str:
        """Queue a request and return its id; with `repeat`, it is resent after a lost connection."""
        request_id, line = self._line(kind, payload, session_id)
        self._pending[request_id] = _Pending(line, on_answer, repeat)
        self.outgoing.append(line)
        if kind == "attach_session" and session_id is not None:
            self._attaching[request_id] = session_id
        return request_id

    def abandon(self, request_id: str) -> None:
        """Nobody waits for this answer any longer."""
        self._pending.pop(request_id, None)
        self._attaching.pop(request_id, None)

    def answer(self, request_id: str, payload: Payload | None, error: Exception | None) -> None:
        """Record a response, or that none will come; an unexpected one is ignored."""
        if request_id in self._joining:
            self._join_answered(self._joining.pop(request_id), payload, error)
            return
        pending = self._pending.pop(request_id, None)
        self._note_attached(self._attaching.pop(request_id, None), payload, error)
        if pending is not None:
            pending.on_answer(RequestResult(payload, error))

    def is_new(self, session_id: str, seq: int) -> bool:
        """Move the session's cursor to an event; False if it was seen before, or will come again."""
        if seq <= self._cursors.get(session_id, 0) or session_id in self._attaching.values():
            return False
        self._cursors[session_id] = seq
        return True

    def follow(self, session_id: str, token: str | None) -> None:
        """Attach to this session on every later connection."""
        self._tokens[session_id] = token

    def seek(self, session_id: str, seq: int) -> None:
        """Count everything up to this event as seen."""
        self._cursors[session_id] = seq

    def forget(self, session_id: str) -> None:
        """Do not attach to this session again: it may not exist by then."""
        self._tokens.pop(session_id, None)

    @property
    def is_waiting(self) -> bool:
        return bool(self._pending or self._joining)

    def _join(self, kind: str, payload: Fields, session_id: str | None = None) -> None:
        request_id, line = self._line(kind, payload, session_id)
        self._joining[request_id] = session_id
        self.outgoing.append(line)

    def _note_attached(self, session_id: str | None, payload: Payload | None, error: Exception | None) -> None:
        """After a gap, seqs may come that were seen before, with events that the log has lost."""
        if session_id is None or payload is None or error is not None:
            return
        if (seq := self._gap_end(payload)) is not None:
            self._cursors[session_id] = seq - 1

    def _join_answered(self, session_id: str | None, payload: Payload | None, error: Exception | None) -> None:
        self._note_attached(session_id, payload, error)
        if session_id is None and payload is not None and error is None:
            self.welcome, spoken = payload, self._spoken_version(payload)
            if spoken != VERSION:
                error = ProtocolError("UNSUPPORTED_PROTOCOL_VERSION", f"the runtime speaks {spoken}, not {VERSION}")
        if isinstance(error, ProtocolError):
            self.refusal = self.refusal or error
        self.is_joined = not self._joining and self.refusal is None

    def _line(self, kind: str, payload: Fields | bytes, session_id: str | None) -> tuple[str, bytes]:
        request_id = self._new_id("req")
        head: Fields = {"v": VERSION, "kind": "request", "requestId": request_id, "type": kind}
        if session_id:
            head["sessionId"] = session_id
        body = payload if isinstance(payload, bytes) else encode_json(payload)
        return request_id, encode_json(head)[:-1] + b',"payload":' + body + b"}\n"


def encode_json(value: object) -> bytes:
    """JSON as the runtime writes it: compact, and not escaped beyond need."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def refusal_of(error: Fields | None) -> ProtocolError:
    """The error of a refused request."""
    if error is None:
        return ProtocolError("INTERNAL_ERROR", "refused without a reason")
    retryable, detail = error.get("retryable", False), error.get("detail")
    return ProtocolError(error["code"], error["message"], retryable=retryable, detail=detail)
