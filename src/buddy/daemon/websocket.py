"""The same envelopes over WebSocket, for browsers and remote clients.

What always holds: nobody gets in without a token, from a foreign page or under a foreign host name; a token is taken
from a header or a subprotocol, never from an address, and is compared by its hash; guessing is slowed down.
"""

import asyncio
import contextlib
import hmac
import logging
import os
import secrets
import time
from collections.abc import Generator
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from buddy.config.places import Places
from buddy.daemon.limits import Rate
from buddy.daemon.link import TooLong
from buddy.daemon.listen import Listen
from buddy.daemon.runtime import Runtime
from buddy.protocol.codes import VERSION, Role
from buddy.sessions.sessions import token_hash

if TYPE_CHECKING:
    import uvicorn

SUBPROTOCOL = VERSION
BEARER = "bearer."
GUESSES_PER_SECOND = 5.0

log = logging.getLogger("buddy.web")


async def serve_web(runtime: Runtime, listen: Listen, places: Places) -> None:
    """Listen until cancelled; the owner's token is in a file of the state directory."""
    import uvicorn

    gate = _Gate(runtime, listen, owner_token(places))
    app = Starlette(routes=[WebSocketRoute("/", gate.enter), WebSocketRoute("/ws", gate.enter)])
    config = uvicorn.Config(
        app,
        host=listen.host,
        port=listen.port,
        log_config=None,
        access_log=False,
        lifespan="off",
        ws_max_size=runtime.limits.frame,
        ws_max_queue=runtime.limits.in_flight,
        ssl_certfile=listen.certificate,
        ssl_keyfile=listen.key,
        server_header=False,
    )
    log.info("WebSocket on %s:%d%s", listen.host, listen.port, " with TLS" if listen.certificate else "")
    server = _quiet_server(config)
    serving = asyncio.get_running_loop().create_task(server.serve())
    try:
        await asyncio.shield(serving)
    finally:
        server.should_exit = server.force_exit = True
        await asyncio.wait([serving])


def _quiet_server(config: "uvicorn.Config") -> "uvicorn.Server":
    """A server that leaves the signals to the daemon, which stops it by cancelling."""
    import uvicorn

    class Quiet(uvicorn.Server):
        @contextlib.contextmanager
        def capture_signals(self) -> Generator[None, None, None]:
            yield

    return Quiet(config)


def owner_token(places: Places) -> str:
    """The owner's own token, made once: whoever can read the state directory is the owner."""
    path = places.state_dir / "web-token"
    with contextlib.suppress(FileExistsError):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(f"att_{secrets.token_urlsafe(32)}\n")
    return path.read_text().strip()


class _Gate:
    """Who may come in, and as what."""

    def __init__(self, runtime: Runtime, listen: Listen, token: str) -> None:
        self._runtime = runtime
        self._listen = listen
        self._owner = token_hash(token)
        self._guesses = Rate(GUESSES_PER_SECOND, 20, time.monotonic)
        runtime.scrubber.register(token)

    async def enter(self, websocket: WebSocket) -> None:
        refusal = self._foreign(websocket)
        if refusal is not None:
            await _deny(websocket, 403, refusal)
            return
        shown = _token_of(websocket)
        if shown is None:
            await _deny(websocket, 401, "a token is required: Authorization: Bearer att_…")
            return
        role = await self._role(shown)
        if role is None:
            if not self._guesses.take():
                await asyncio.sleep(1.0)
            await _deny(websocket, 401, "the token is not valid")
            return
        await self._serve(websocket, role)

    async def _serve(self, websocket: WebSocket, role: "tuple[str, Role, str] | str") -> None:
        offered = websocket.scope.get("subprotocols", [])
        await websocket.accept(SUBPROTOCOL if SUBPROTOCOL in offered else None)
        link = WebSocketLink(websocket, self._runtime.limits.stalled_seconds)
        owner = isinstance(role, str)
        if self._runtime.welcome(link, trusted=owner, role=None if isinstance(role, str) else role):
            await link.wait_closed()
        else:
            link.close()

    async def _role(self, shown: str) -> "tuple[str, Role, str] | str | None":
        """`owner`, or what an attach token allows on its session."""
        hashed = token_hash(shown)
        if hmac.compare_digest(hashed, self._owner):
            return "owner"
        known = await self._runtime.log.token(hashed)
        if known is None or await self._runtime.sessions.role_of(shown, known.session_id) is None:
            return None
        return known.session_id, known.role, hashed

    def _foreign(self, websocket: WebSocket) -> str | None:
        """Why this page or host name is not ours; a browser always tells its page, other programs need not."""
        names = self._names(websocket)
        host = websocket.headers.get("host", "")
        if host not in names:
            return "this host name is not served here"
        scheme = "https" if self._listen.certificate else "http"
        origin = websocket.headers.get("origin")
        if origin is not None and origin not in {f"{scheme}://{name}" for name in names}:
            return "this page may not connect"
        return None

    def _names(self, websocket: WebSocket) -> set[str]:
        server = websocket.scope.get("server")
        port = server[1] if server else self._listen.port
        hosts = {"127.0.0.1", "localhost", "[::1]", self._listen.host, f"[{self._listen.host}]"}
        default = 443 if self._listen.certificate else 80
        return {f"{host}:{port}" for host in hosts} | (hosts if port == default else set())


class WebSocketLink:
    """One message, one line or more, in; one message per line out."""

    def __init__(self, websocket: WebSocket, stalled_seconds: float) -> None:
        self.crowded = False
        self._websocket = websocket
        self._stalled = stalled_seconds
        self._lines: list[bytes] = []
        self._closed = asyncio.Event()
        self._writing = asyncio.Lock()

    async def read_line(self) -> bytes | None:
        while not self._lines:
            receiving = asyncio.ensure_future(self._websocket.receive())
            closing = asyncio.ensure_future(self._closed.wait())
            done, _ = await asyncio.wait((receiving, closing), return_when=asyncio.FIRST_COMPLETED)
            closing.cancel()
            if receiving not in done:
                receiving.cancel()
                return None
            message = receiving.result()
            if message["type"] == "websocket.disconnect":
                self._closed.set()
                if message.get("code") == 1009:
                    raise TooLong
                return None
            text: str | None = message.get("text")
            data: bytes = message.get("bytes") or b""
            self._lines = (text.encode(errors="surrogatepass") if text is not None else data).splitlines()[::-1]
        return self._lines.pop()

    async def write(self, lines: bytes) -> None:
        if self._closed.is_set():
            raise ConnectionResetError("the peer is gone")
        try:
            async with asyncio.timeout(self._stalled), self._writing:
                for line in lines.splitlines():
                    await self._websocket.send_text(line.decode())
        except (TimeoutError, RuntimeError, WebSocketDisconnect) as error:
            self.close()
            raise ConnectionResetError("the peer is gone") from error

    def close(self) -> None:
        self._closed.set()

    async def wait_closed(self) -> None:
        """Until either side is done; then the socket is closed."""
        await self._closed.wait()
        with contextlib.suppress(RuntimeError, WebSocketDisconnect):
            await self._websocket.close()


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
