"""From a request to its handler: hello, role and session are checked here, by the request's row.

Invariants: a handler runs only for a peer that its row admits; a handler of a session gets the session, not its id.
"""

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from buddy.daemon.connection import PeerConnection
from buddy.daemon.roles import no_session
from buddy.errors import ProtocolError, SessionElsewhere
from buddy.log.contract import SessionRecord
from buddy.protocol.envelopes import IncomingRequest, payload_of, session_of
from buddy.protocol.request_table import REQUESTS, RequestRow
from buddy.protocol.shapes import Shape
from buddy.scrub.scrubber import is_long
from buddy.sessions.session import Session
from buddy.sessions.sessions import Sessions
from buddy.steps import take_turns

AnyShape = TypeVar("AnyShape", bound=Shape)
Subject = SessionRecord | Session | None
"""What a request acts on: by its row, the session's record, the open session, or neither."""

Handler = Callable[[PeerConnection, Shape, Subject], Awaitable[Shape]]
Handlers = dict[str, Handler]


class RemoteDispatch(Protocol):
    def must_forward(self, request: IncomingRequest) -> bool: ...

    async def forward(self, peer: PeerConnection, request: IncomingRequest) -> Shape: ...


class Dispatcher:
    """The handlers behind their checks. A request without a handler is answered as unsupported."""

    def __init__(self, sessions: Sessions, handlers: Handlers) -> None:
        self._sessions = sessions
        self._handlers = handlers
        self.remote: RemoteDispatch | None = None
        """The other nodes, where there are some."""

    async def dispatch(self, peer: PeerConnection, request: IncomingRequest) -> Shape:
        """Answer a request; one about a session that another node has is answered by that node."""
        remote = self.remote
        if remote is not None and remote.must_forward(request):
            return await remote.forward(peer, request)
        try:
            return await self.dispatch_here(peer, request)
        except SessionElsewhere:
            if remote is None:
                raise
            return await remote.forward(peer, request)

    async def dispatch_here(self, peer: PeerConnection, request: IncomingRequest) -> Shape:
        payload = payload_of(request)
        row, handler = REQUESTS[request.type], self._handlers.get(request.type)
        if row.access != "anyone" and not peer.name:
            raise ProtocolError("INVALID_REQUEST", "send hello first")
        session_id = session_of(request) if row.is_session_bound else ""
        if handler is None:
            raise ProtocolError("UNSUPPORTED_REQUEST_TYPE", f"{request.type} is not available in this runtime")
        record = await self._sessions.record(session_id) if row.is_session_bound else None
        # A client that attaches may present a token, so the handler looks at that first.
        if record is not None:
            await self._inherit_role(peer, record)
            if not peer.roles.recognise(record) and row.access != "client":
                raise no_session(session_id)
        _admit(peer, request.type, row, session_id)
        if is_long(request.payload):
            # So that its texts are known to the scrubber when they are recorded, which must not take long.
            await take_turns(self._sessions.services.scrubber.tree_steps({"payload": request.payload}))
        subject = await self._sessions.open(session_id) if row.acts_on == "open_session" else record
        return await handler(peer, payload, subject)

    async def _inherit_role(self, peer: PeerConnection, record: SessionRecord) -> None:
        """What a peer may do in a session, it may do in its sub-agents' sessions, and no more."""
        session_id, facts = record.session_id, record.facts
        while facts.agent is not None and facts.parent is not None and not peer.roles.has_role(session_id):
            parent = await self._sessions.services.log.get(facts.parent)
            if parent is None:
                return
            session_id, facts = parent.session_id, parent.facts
        peer.roles.inherit(record.session_id, session_id)


def _admit(peer: PeerConnection, kind: str, row: RequestRow, session_id: str) -> None:
    match row.access:
        case "anyone" | "client":
            pass
        case "user":
            if not peer.roles.is_owner and peer.roles.user is None:
                raise ProtocolError("ATTACH_FORBIDDEN", f"only the owner of the runtime may send {kind}")
        case "owner":
            if not peer.roles.is_owner:
                raise ProtocolError("ATTACH_FORBIDDEN", f"only the owner of the runtime may send {kind}")
        case "local_owner":
            if not peer.is_local:
                raise ProtocolError("ATTACH_FORBIDDEN", f"only the owner may send {kind}, on the Unix socket")
        case "observer" | "approver" | "driver":
            peer.roles.require(session_id, row.access)


def on_runtime(shape: type[AnyShape], handler: Callable[[PeerConnection, AnyShape], Awaitable[Shape]]) -> Handler:
    """A handler of a request that is not about one session."""

    def call(peer: PeerConnection, payload: Shape, _: Subject) -> Awaitable[Shape]:
        return handler(peer, _expect(payload, shape))

    return call


def on_record(
    shape: type[AnyShape], handler: Callable[[PeerConnection, AnyShape, SessionRecord], Awaitable[Shape]]
) -> Handler:
    """A handler that needs a session's record."""

    def call(peer: PeerConnection, payload: Shape, subject: Subject) -> Awaitable[Shape]:
        return handler(peer, _expect(payload, shape), _expect(subject, SessionRecord))

    return call


def on_session(
    shape: type[AnyShape], handler: Callable[[PeerConnection, AnyShape, Session], Awaitable[Shape]]
) -> Handler:
    """A handler that needs the session open."""

    def call(peer: PeerConnection, payload: Shape, subject: Subject) -> Awaitable[Shape]:
        return handler(peer, _expect(payload, shape), _expect(subject, Session))

    return call


Expected = TypeVar("Expected")


def _expect(value: object, kind: type[Expected]) -> Expected:
    if not isinstance(value, kind):
        raise ProtocolError("INTERNAL_ERROR", f"the handler expects {kind.__name__}, its row gives another")
    return value
