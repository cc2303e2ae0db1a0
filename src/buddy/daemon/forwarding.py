"""Requests about sessions that another node has: forwarded to it, and answered with its answer.

Invariants: a request is judged by the same rules on both nodes, as the same peer; a key of a client is never forwarded,
and known secrets are removed from what is; what may have been done is not repeated unless that changes nothing.
"""

import uuid
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from buddy.cluster.fleet import Fleet
from buddy.cluster.postgres import PostgresPlacement
from buddy.cluster.requests import Moved, RemoteRequest, RemoteRequests, ServerLost, Unanswered
from buddy.daemon.connection import PeerConnection, named_session, reply_steps
from buddy.daemon.runtime import Runtime
from buddy.errors import ProtocolError, SessionElsewhere
from buddy.log.contract import TokenRecord
from buddy.protocol.codes import VERSION
from buddy.protocol.envelopes import IncomingRequest, Response, decode, parse_incoming, payload_of, session_of
from buddy.protocol.request_table import REQUESTS
from buddy.protocol.requests import (
    AcceptedReply,
    ForkSessionReply,
    SendUserMessage,
    StartSession,
    StartSessionReply,
    SubmitApproval,
)
from buddy.protocol.shapes import Shape
from buddy.scrub import Scrubber

ATTEMPTS = 5
LONG_SECONDS = 600.0
_MAKES_SESSION = frozenset({"start_session", "fork_session"})
_REPEATABLE = frozenset({"send_user_message", "queue_message", "cancel_run", "rename_session", "archive_session"})
"""Doing these twice is doing them once; so is whatever only reads."""
_READS = ("get_", "list_", "read_")


Json = dict[str, Any] | list[Any] | str | float | bool | None


class ForwardedRequest(Struct, frozen=True):
    """A request, and who sent it."""

    request: IncomingRequest
    name: str
    is_owner: bool
    user: str | None = None
    token: TokenRecord | None = None


class ForwardedPeer(PeerConnection):
    """The peer of another node, while a request of it is served here."""

    is_forwarded = True

    async def answer(self, forwarded: ForwardedRequest) -> Response:
        reply_steps.set([])  # what follows an answer happens where the peer is
        self.name = forwarded.name
        if forwarded.token is not None:
            self.roles.grant(forwarded.token)
        return await self._answer(forwarded.request, named_session(forwarded.request))


class _NoLink:
    crowded = False

    async def read_line(self) -> bytes | None:
        return None

    async def write(self, lines: bytes) -> None: ...

    def close(self) -> None: ...


class Forwarding:
    def __init__(self, runtime: Runtime, placement: PostgresPlacement, requests: RemoteRequests) -> None:
        self._runtime = runtime
        self._placement = placement
        self._requests = requests
        self.fleet: Fleet | None = None

    def must_forward(self, request: IncomingRequest) -> bool:
        """Whether this node makes no sessions."""
        fleet = self.fleet
        return request.type in _MAKES_SESSION and fleet is not None and not fleet.may_take

    async def forward(self, peer: PeerConnection, request: IncomingRequest) -> Shape:
        """Have another node answer."""
        session_id = session_of(request) if request.type != "start_session" else ""
        is_pinned = bool(session_id) and await self._is_pinned(session_id)
        # The copy of a session that works on a node itself is made there.
        subject = session_id if is_pinned or request.type not in _MAKES_SESSION else None
        cursor = (await self._runtime.sessions.record(session_id)).last_seq if session_id else 0
        token = peer.roles.token_of(session_id) if session_id else None
        forwarded = ForwardedRequest(self._scrubbed(request), peer.name, peer.roles.is_owner, peer.roles.user, token)
        response = await self._ask(request, subject, msgspec.json.encode(forwarded))
        if response.error is not None:
            error = response.error
            raise ProtocolError(error.code, error.message, retryable=error.retryable, detail=error.detail)
        reply = decode(response.payload, REQUESTS[request.type].reply)
        return await self._follow_up(peer, request, reply, cursor, token)

    async def ask(self, session_id: str, kind: str, payload: Shape, by: str) -> None:
        """Have a request of this runtime itself answered by the node that has a session."""
        content = msgspec.json.decode(msgspec.json.encode(payload))
        request = IncomingRequest(VERSION, "request", f"req_{uuid.uuid4().hex}", kind, content, session_id)
        forwarded = ForwardedRequest(request, by, is_owner=True)
        response = await self._ask(request, session_id, msgspec.json.encode(forwarded))
        if response.error is not None:
            raise ProtocolError(response.error.code, response.error.message, retryable=response.error.retryable)

    async def serve(self, body: bytes) -> bytes:
        """Answer what another node received; Moved if the session is not here either."""
        forwarded = msgspec.json.decode(body, type=ForwardedRequest)
        runtime = self._runtime
        peer = ForwardedPeer(
            _NoLink(),
            runtime.sessions,
            runtime.log,
            runtime.dispatcher.dispatch_here,
            trusted=forwarded.is_owner,
            scrubber=runtime.scrubber,
            user=forwarded.user,
            audit=runtime.operations.audit,
        )
        try:
            response = await peer.answer(forwarded)
        except SessionElsewhere:
            raise Moved from None
        finally:
            peer.roles.close()
        return _without_token(response).line()

    async def _ask(self, request: IncomingRequest, subject: str | None, body: bytes) -> Response:
        seconds = LONG_SECONDS if REQUESTS[request.type].takes_long else None
        for _ in range(ATTEMPTS):
            asked = RemoteRequest(uuid.uuid4().hex, subject, body)
            try:
                line = await self._requests.ask(asked, seconds)
            except ServerLost:
                found = await self._outcome(request)
                if found is not None:
                    return found
                continue
            except Unanswered:
                raise _unanswered(request) from None
            answer = parse_incoming(line)
            if isinstance(answer, Response):
                return answer
        raise ProtocolError("OVERLOADED", "the nodes that tried this were lost; try again later", retryable=True)

    async def _outcome(self, request: IncomingRequest) -> Response | None:
        """What became of a request whose node was lost; None if it can be repeated."""
        if _is_repeatable(request):
            return None
        payload = payload_of(request)
        if isinstance(payload, SubmitApproval):
            known = await self._runtime.log.approval(payload.approval_id)
            if known is not None and known.state == payload.decision:
                accepted = msgspec.Raw(msgspec.json.encode(AcceptedReply(True)))
                return Response(request.request_id, request.type, True, accepted, None)
            return None  # the compare-and-set answers
        raise ProtocolError(
            "INTERNAL_ERROR", "the node that served this was lost, and it may have been done; look before you repeat it"
        )

    async def _is_pinned(self, session_id: str) -> bool:
        """Whether a session works on one node only; refused if that one is lost."""
        pinned = await self._placement.pinned_to(session_id)
        if pinned is not None and not pinned[1]:
            message = f"{session_id} works on node {pinned[0]}, which is not available"
            raise ProtocolError("SANDBOX_UNAVAILABLE", message, retryable=True)
        return pinned is not None

    async def _follow_up(
        self, peer: PeerConnection, request: IncomingRequest, reply: Shape, cursor: int, token: TokenRecord | None
    ) -> Shape:
        """Do for the peer what only its own node can; `token` is the one that it sent the request with."""
        payload = payload_of(request)
        if isinstance(payload, SendUserMessage) and not peer.is_attached(payload.session_id):
            peer.attach(payload.session_id, cursor)
        if not isinstance(reply, StartSessionReply | ForkSessionReply):
            return reply
        peer.roles.drive(reply.session_id)
        if isinstance(payload, StartSession):
            peer.attach(reply.session_id, 0)
        minted = await self._runtime.sessions.tokens.mint(reply.session_id, "driver", minted_by=token)
        if token is not None:
            await peer.roles.admit(reply.session_id, minted)
        return replace(reply, attach_token=minted)

    def _scrubbed(self, request: IncomingRequest) -> IncomingRequest:
        payload = payload_of(request)
        if isinstance(payload, StartSession) and payload.options and payload.options.endpoint:
            raise ProtocolError("ATTACH_FORBIDDEN", "options.endpoint needs a node that starts sessions itself")
        return replace(request, payload=_registered(self._runtime.scrubber, request.payload))


def _is_repeatable(request: IncomingRequest) -> bool:
    return request.type in _REPEATABLE or request.type.startswith(_READS)


def _unanswered(request: IncomingRequest) -> ProtocolError:
    message = "the node that has the session began this and has not answered in time; it may still complete"
    if _is_repeatable(request):
        return ProtocolError("OVERLOADED", f"{message}, and may be repeated", retryable=True)
    return ProtocolError("INTERNAL_ERROR", f"{message}; look before you repeat it")


def _registered(scrubber: Scrubber, tree: Json) -> Json:
    """Known secrets are hidden here already: they must not be in the log, not even for a moment."""
    if isinstance(tree, str):
        return scrubber.registered(tree)
    if isinstance(tree, dict):
        return {name: _registered(scrubber, value) for name, value in tree.items()}
    return [_registered(scrubber, value) for value in tree] if isinstance(tree, list) else tree


def _without_token(response: Response) -> Response:
    """An attach token is never stored: the node that was asked makes one itself."""
    if not response.ok or response.type not in _MAKES_SESSION:
        return response
    reply: dict[str, Any] = msgspec.json.decode(response.payload)
    return replace(response, payload=msgspec.Raw(msgspec.json.encode({**reply, "attachToken": "att_elsewhere"})))
