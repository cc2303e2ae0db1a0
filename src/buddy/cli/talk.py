"""The protocol from the side of a command that asks, follows and ends, without I/O and without an event loop.

A step of it is a generator: each bare `yield` waits for the next line that the runtime sent, None once it is gone, and
what is to be sent stands in `outgoing` by then. So the same steps run over a blocking socket and inside an event loop.

What always holds: events come in the order of their seq and each once, also after a connection that was lost; what
was asked and not answered is asked again then, where asking twice does no harm. Lines are plain JSON here: the types of
the protocol take longer to load than a daemon to start a run.
"""

from __future__ import annotations

import json
from collections import deque

from buddy.errors import ProtocolError, UserError
from buddy.protocol.basics import VERSION, Ulids
from buddy.version import VERSION as PRODUCT_VERSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator
    from typing import Any, TypeAlias, TypeVar

    Fields = dict[str, Any]
    Result = TypeVar("Result")
    Steps: TypeAlias = Generator[None, bytes | None, Result]

_CAPABILITIES = ("stream_tokens", "approvals", "replay_attach")
_ONCE = frozenset({"start_session"})  # what must not be asked twice


class Talk:
    def __init__(self, name: str) -> None:
        self.outgoing = bytearray()
        self.events: deque[tuple[Fields, bytes]] = deque()
        self.is_gone = False
        self.refusals: list[str] = []
        self._name = name
        self._ids = Ulids()
        self._asked: dict[str, tuple[str, bytes]] = {}
        self._told: dict[str, bool] = {}
        self._answers: dict[str, Fields] = {}
        self._attached: Fields = {}
        self._seen = 0

    def greet(self) -> None:
        """Say hello. Requests are answered in their order, so what comes next need not wait for the answer."""
        wish = {"clientName": self._name, "clientVersion": PRODUCT_VERSION, "capabilities": _CAPABILITIES}
        self._request("hello", wish)

    def start_session(self, wish: Fields) -> Steps[str]:
        reply = yield from self.ask("start_session", wish)
        self._attached = {"sessionId": reply["sessionId"], "attachToken": reply["attachToken"]}
        return reply["sessionId"]

    def attach(self, session_id: str) -> Steps[Fields]:
        self._attached = {"sessionId": session_id}
        return (yield from self.ask("attach_session", {**self._attached, "lastSeenSeq": 0}, session_id))

    def ask(self, kind: str, payload: Fields, session_id: str = "") -> Steps[Fields]:
        """Send a request and wait for its reply; a refusal is a ProtocolError."""
        request_id, line = self._request(kind, payload, session_id)
        self._asked[request_id] = kind, line
        while request_id not in self._answers:
            self._take((yield))
            if self.is_gone:
                hint = "it is stopping or has too many clients; try again, and see buddy daemon logs"
                raise UserError("the daemon closed the connection", hint=hint, exit_code=75)
        del self._asked[request_id]
        return _payload_of(self._answers.pop(request_id))

    def tell(self, kind: str, payload: Fields, *, is_owed: bool) -> None:
        """Send a request without waiting; where an answer is owed to somebody, a refusal is kept in `refusals`."""
        self._told[self._request(kind, payload, payload["sessionId"])[0]] = is_owed

    def next_event(self) -> Steps[tuple[Fields, bytes] | None]:
        """The next event, and its line; None when the runtime is gone."""
        while not self.events:
            if self.is_gone:
                return None
            self._take((yield))
        return self.events.popleft()

    def rejoin(self) -> None:
        """The connection was made again: say who we are, and go on where we were."""
        self.outgoing.clear()
        lost = [line for kind, line in self._asked.values() if kind not in _ONCE]
        if len(lost) < len(self._asked):
            raise UserError("the daemon was lost while it started the session", hint="try again", exit_code=75)
        self.greet()
        if self._attached:
            self.tell("attach_session", {**self._attached, "lastSeenSeq": self._seen}, is_owed=False)
        self.outgoing += b"".join(lost)

    def _request(self, kind: str, payload: Fields, session_id: str = "") -> tuple[str, bytes]:
        request_id = self._ids("req")
        envelope = {"v": VERSION, "kind": "request", "requestId": request_id, "type": kind, "payload": payload}
        line = encoded({**envelope, "sessionId": session_id} if session_id else envelope)
        self.outgoing += line
        return request_id, line

    def _take(self, line: bytes | None) -> None:
        if line is None:
            self.is_gone = True
            return
        found: Fields = json.loads(line)
        if found["v"] != VERSION:
            raise ProtocolError("UNSUPPORTED_PROTOCOL_VERSION", f"this client speaks {VERSION}, not {found['v']!r}")
        if found["kind"] == "response":
            self._take_response(found)
        elif found["seq"] > self._seen:
            self._seen = found["seq"]
            self.events.append((found, line))

    def _take_response(self, response: Fields) -> None:
        request_id = response["requestId"]
        if request_id in self._asked:
            self._answers[request_id] = response
            return
        if response["type"] == "hello":
            spoken = _payload_of(response)["protocolVersion"]
            if spoken != VERSION:
                raise ProtocolError("UNSUPPORTED_PROTOCOL_VERSION", f"the runtime speaks {spoken}")
        is_owed = self._told.pop(request_id, False)
        if is_owed and not response["ok"]:
            self.refusals.append(response["error"]["message"])
        elif not response["ok"] and response["type"] == "attach_session":
            self.is_gone = True  # the session or our right to it is no more
        elif not response["ok"] and response["type"] == "cancel_run" and response["error"]["retryable"]:
            _payload_of(response)  # what cannot even be cancelled now, as the disk is full, is not waited for


def _payload_of(response: Fields) -> Fields:
    error: Fields | None = response.get("error")
    if error is not None:
        raise ProtocolError(error["code"], error["message"], retryable=error["retryable"], detail=error.get("detail"))
    if not response["ok"]:
        raise ProtocolError("INTERNAL_ERROR", "a refusal without a reason")
    return response["payload"]


def encoded(fields: Fields) -> bytes:
    """One line, spelt as the runtime spells its own."""
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
