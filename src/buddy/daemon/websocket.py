"""The same envelopes over WebSocket, for browsers and remote clients.

Invariants: nobody connects without a token, from a foreign page or under a foreign host name; a token is read from a
header or a subprotocol, never from a URL, and is compared by its hash; guessing is slowed down.
"""

import asyncio
import contextlib
import hmac
import logging
import os
import secrets
import socket
import time
from collections import deque
from collections.abc import Generator
from typing import TYPE_CHECKING, Literal

from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from buddy.config.places import Places
from buddy.daemon.limits import Limits, Rate
from buddy.daemon.link import LineTooLong
from buddy.daemon.listen import Listen
from buddy.daemon.runtime import Runtime
from buddy.daemon.waiting_peers import MAX_WAITING, WaitingPeers
from buddy.errors import UserError
from buddy.log.contract import TokenRecord
from buddy.protocol.codes import VERSION
from buddy.sessions.tokens import token_hash

if TYPE_CHECKING:
    import uvicorn

SUBPROTOCOL = VERSION
BEARER = "bearer."
GUESSES_PER_SECOND = 5.0
CLOSE_SECONDS = 1.0
TOKEN_LENGTH = 40
TOO_BIG = 1009
"""The close code for a message that is too large."""
MAX_FRAMES = 4
"""Messages up to this many times the frame limit are read, to answer them with an error; longer ones are not read."""

log = logging.getLogger("buddy.web")


def bind_web(listen: Listen, limits: Limits) -> socket.socket:
    """The listening socket; the kernel disconnects peers that read nothing for too long."""
    try:
        family, kind, number, _, address = socket.getaddrinfo(
            listen.host, listen.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, kind, number)
    except OSError as error:
        raise UserError(f"cannot listen on {listen.host}: {error.strerror}") from error
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(limits.stalled_seconds * 1000))
        listening.bind(address)
    except OSError as error:
        listening.close()
        raise UserError(
            f"cannot listen on {listen.host}:{listen.port}: {error.strerror}", hint="choose another port with --listen"
        ) from error
    return listening


async def serve_web(runtime: Runtime, listen: Listen, places: Places, listening: socket.socket) -> None:
    """Serve until cancelled; the owner's token is in a file of the state directory."""
    import uvicorn

    waiting = WaitingPeers(min(MAX_WAITING, runtime.limits.connections))
    admission = _Admission(runtime, listen, owner_token(places), waiting)
    config = uvicorn.Config(
        Starlette(routes=[WebSocketRoute("/", admission.enter), WebSocketRoute("/ws", admission.enter)]),
        http=_http_protocol(runtime.limits, waiting),
        log_config=None,
        access_log=False,
        lifespan="off",
        ws_max_size=runtime.limits.frame * MAX_FRAMES,
        ssl_certfile=listen.certificate,
        ssl_keyfile=listen.key,
        server_header=False,
    )
    # It would log every requested URL, including those with a token in them by mistake.
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    logging.getLogger("uvicorn.error").addFilter(_is_relevant)
    port: int = listening.getsockname()[1]
    log.info("WebSocket on %s:%d%s", listen.host, port, " with TLS" if listen.certificate else "")
    server = _quiet_server(config)
    serving = asyncio.get_running_loop().create_task(server.serve([listening]))
    try:
        await asyncio.shield(serving)
    finally:
        server.should_exit = server.force_exit = True
        await asyncio.wait([serving])


def _is_relevant(record: logging.LogRecord) -> bool:
    """The server reports each refused upgrade as an error; the refusal itself is logged by `_deny`."""
    return "without completing handshake" not in record.getMessage()


def _http_protocol(limits: Limits, waiting: WaitingPeers) -> "type[asyncio.Protocol]":
    """HTTP that limits the time to request a WebSocket and the number of peers without a token."""
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class BoundedHttp(H11Protocol):
        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] - the base class types it as a plain transport
            super().connection_made(transport)
            self._address = _address(self.client)
            waiting.add(self._address, transport)
            self.loop.call_later(limits.hello_seconds, self._expect_upgrade, transport)

        def connection_lost(self, exc: Exception | None) -> None:
            waiting.discard(self._address)
            super().connection_lost(exc)

        def _expect_upgrade(self, transport: asyncio.Transport) -> None:
            if transport.get_protocol() is self:
                transport.abort()

    return BoundedHttp


def _quiet_server(config: "uvicorn.Config") -> "uvicorn.Server":
    """A server that leaves the signals to the daemon, which stops it by cancelling."""
    import uvicorn

    class Quiet(uvicorn.Server):
        @contextlib.contextmanager
        def capture_signals(self) -> Generator[None, None, None]:
            yield

    return Quiet(config)


def owner_token(places: Places) -> str:
    """The owner's token, created once: anyone who can read the state directory is the owner."""
    path = places.state_dir / "web-token"
    with contextlib.suppress(FileNotFoundError):
        known = path.read_text().strip()
        if known.startswith("att_") and len(known) >= TOKEN_LENGTH:
            return known
    # Written completely before it gets its name: half a token, or an empty one, would be easy to guess.
    made = path.with_suffix(".new")
    made.unlink(missing_ok=True)
    token = f"att_{secrets.token_urlsafe(32)}"
    descriptor = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(token + "\n")
    made.replace(path)
    return token


def _address(client: tuple[str, int] | None) -> tuple[str, int]:
    return client or ("", 0)


class _Admission:
    """Decides who may connect, and in which role."""

    def __init__(self, runtime: Runtime, listen: Listen, token: str, waiting: WaitingPeers) -> None:
        self._waiting = waiting
        self._runtime = runtime
        self._listen = listen
        self._owner = token_hash(token)
        self._guesses = Rate(GUESSES_PER_SECOND, 20, time.monotonic)
        runtime.scrubber.register(token)

    async def enter(self, websocket: WebSocket) -> None:
        try:
            grant = await self._admit(websocket)
        finally:
            self._waiting.discard(_address(websocket.scope.get("client")))
        if grant is not None:
            await self._serve(websocket, grant)

    async def _admit(self, websocket: WebSocket) -> "TokenRecord | Literal['owner'] | None":
        """What the peer may do; None if it was refused."""
        refusal = self._refusal_of_origin(websocket)
        if refusal is not None:
            await _deny(websocket, 403, refusal)
            return None
        token = _token_of(websocket)
        if token is None:
            await _deny(websocket, 401, "a token is required: Authorization: Bearer att_…")
            return None
        grant = await self._role(token)
        if grant is None:
            if not self._guesses.take():
                await asyncio.sleep(1.0)
            await _deny(websocket, 401, "the token is not valid")
        return grant

    async def _serve(self, websocket: WebSocket, grant: "TokenRecord | Literal['owner']") -> None:
        offered = websocket.scope.get("subprotocols", [])
        await websocket.accept(SUBPROTOCOL if SUBPROTOCOL in offered else None)
        link = ServerWebSocketLink(websocket, self._runtime.limits)
        owner = grant == "owner"
        if not self._runtime.accept(link, trusted=owner, grant=None if grant == "owner" else grant):
            link.close()
        await link.wait_closed()

    async def _role(self, token: str) -> "TokenRecord | Literal['owner'] | None":
        """What the token allows: everything, or a role on one session."""
        is_owner = hmac.compare_digest(token_hash(token), self._owner)
        return "owner" if is_owner else await self._runtime.sessions.tokens.find(token)

    def _refusal_of_origin(self, websocket: WebSocket) -> str | None:
        """Why this host name or page is refused; a browser always sends its page's origin, other programs need not."""
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
        # An IP address rather than a name, so a foreign page cannot have chosen it.
        reached, port = websocket.scope.get("server") or (self._listen.host, self._listen.port)
        hosts = {
            "127.0.0.1",
            "localhost",
            "[::1]",
            self._listen.host,
            f"[{self._listen.host}]",
            reached,
            f"[{reached}]",
        }
        default = 443 if self._listen.certificate else 80
        return {f"{host}:{port}" for host in hosts} | (hosts if port == default else set())


class ServerWebSocketLink:
    """Incoming messages have one or more lines; outgoing ones have one line each."""

    def __init__(self, websocket: WebSocket, limits: Limits) -> None:
        self.crowded = False
        self._websocket = websocket
        self._limits = limits
        self._lines: deque[bytes] = deque()
        self._taken = 0
        self._closed = asyncio.Event()
        self._close_code = 1000
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
                if message.get("code") == TOO_BIG:
                    raise LineTooLong
                return None
            text: str | None = message.get("text")
            data: bytes = message.get("bytes") or b""
            lines = (text.encode(errors="surrogatepass") if text is not None else data).split(b"\n")
            if any(len(line) > self._limits.frame for line in lines):
                self._close_code = TOO_BIG
                raise LineTooLong
            self._lines.extend(line for line in lines if line)
            self._taken = 0
        # Otherwise a peer with many buffered lines would not let other tasks run.
        await asyncio.sleep(0)
        self.crowded = self._taken >= self._limits.in_flight
        self._taken += 1
        return self._lines.popleft()

    async def write(self, lines: bytes) -> None:
        if self._closed.is_set():
            raise ConnectionResetError("the peer is gone")
        try:
            async with self._writing:
                for line in lines.splitlines():
                    async with asyncio.timeout(self._limits.stalled_seconds):
                        await self._websocket.send_text(line.decode())
        except (TimeoutError, RuntimeError, WebSocketDisconnect) as error:
            self.close()
            raise ConnectionResetError("the peer is gone") from error

    def close(self) -> None:
        self._closed.set()

    async def wait_closed(self) -> None:
        """Wait until either side is done, then close the socket, whether or not the peer reads the close frame."""
        await self._closed.wait()
        with contextlib.suppress(RuntimeError, WebSocketDisconnect, TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._websocket.close(self._close_code)


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
