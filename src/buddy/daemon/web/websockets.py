"""The same envelopes over WebSocket, for browsers and remote clients.

Invariants: nobody connects without a token or a login, from a foreign page or under a foreign host name; guessing is
slowed down; a connection ends with the token or the login that it was admitted by.
"""

import asyncio
import logging
import time

from starlette.responses import PlainTextResponse
from starlette.websockets import WebSocket

from buddy.daemon.limits import Rate
from buddy.daemon.runtime import Runtime
from buddy.daemon.waiting_peers import WaitingPeers
from buddy.daemon.web.cookies import cookies_named
from buddy.daemon.web.identity import Identities, Identity
from buddy.daemon.web.origins import Origins
from buddy.daemon.web.socket_link import ServerWebSocketLink
from buddy.protocol.codes import VERSION

SUBPROTOCOL = VERSION
BEARER = "bearer."
GUESSES_PER_SECOND = 5.0
COMPARE_SECONDS = 1.0
"""How often a login is compared with the clocks, which timers do not follow while the machine sleeps."""

log = logging.getLogger("buddy.web")


class WebSockets:
    """Decides who may connect, and in which role."""

    def __init__(
        self, runtime: Runtime, identities: Identities, origins: Origins, waiting: WaitingPeers, cookie: str
    ) -> None:
        self._runtime = runtime
        self._identities = identities
        self._origins = origins
        self._waiting = waiting
        self._cookie = cookie
        self._guesses = Rate(GUESSES_PER_SECOND, 20, time.monotonic)

    async def enter(self, websocket: WebSocket) -> None:
        try:
            identity = await self._admit(websocket)
        finally:
            self._waiting.discard(websocket.scope.get("client") or ("", 0))
        if identity is not None:
            await self._serve(websocket, identity)

    async def _admit(self, websocket: WebSocket) -> Identity | None:
        """Who the peer is; None if it was refused."""
        refusal = self._origins.refusal(websocket.headers, websocket.scope.get("server"))
        if refusal is not None:
            await _deny(websocket, 403, refusal)
            return None
        token = _token_of(websocket)
        cookies = cookies_named(websocket.headers, self._cookie)
        if token is None and not cookies:
            await _deny(websocket, 401, "a token is required: Authorization: Bearer att_…")
            return None
        by_token = self._identities.by_token(token) if token is not None else None
        identity = await (by_token or self._identities.by_cookies(cookies))
        if identity is None:
            if not self._guesses.take():
                await asyncio.sleep(1.0)
            await _deny(websocket, 401, "the token is not valid" if token else "the login is not valid")
        return identity

    async def _serve(self, websocket: WebSocket, identity: Identity) -> None:
        offered = websocket.scope.get("subprotocols", [])
        await websocket.accept(SUBPROTOCOL if SUBPROTOCOL in offered else None)
        link = ServerWebSocketLink(websocket, self._runtime.limits)
        login = identity.login.login_hash if identity.login else None
        user = identity.user.name if identity.user else None
        is_served = self._runtime.accept(link, trusted=identity.is_owner, grant=identity.token, login=login, user=user)
        # It may have been revoked while the connection was accepted, when nothing could be disconnected yet.
        if not is_served or not await self._identities.is_valid(identity):
            link.close()
        if identity.login is not None or identity.user is not None:
            await self._close_with(identity, link)
        await link.wait_closed()

    async def _close_with(self, identity: Identity, link: ServerWebSocketLink) -> None:
        """Wait until a login or a user's token is over; other connections are closed by their roles."""
        while not await link.wait_ended(COMPARE_SECONDS):
            if not await self._identities.is_valid(identity):
                link.close()


def _token_of(websocket: WebSocket) -> str | None:
    """From `Authorization: Bearer`, or, for browsers, a subprotocol `bearer.att_…`."""
    scheme, _, token = websocket.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and token:
        return token.strip()
    offered: list[str] = websocket.scope.get("subprotocols", [])
    return next((name.removeprefix(BEARER) for name in offered if name.startswith(BEARER)), None)


async def _deny(websocket: WebSocket, status: int, reason: str) -> None:
    log.info("refused a WebSocket: %s", reason)
    await websocket.send_denial_response(PlainTextResponse(reason + "\n", status_code=status))
