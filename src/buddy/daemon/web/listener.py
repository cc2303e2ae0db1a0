"""The web listener: console and WebSocket on one port."""

import asyncio
import contextlib
import logging
import os
import secrets
import socket
from collections.abc import Generator
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.routing import Route, WebSocketRoute

from buddy.daemon.listen import TOKEN_FILE, Listen
from buddy.daemon.runtime import Runtime
from buddy.daemon.waiting_peers import MAX_WAITING, WaitingPeers
from buddy.daemon.web.bounded_http import bounded_http
from buddy.daemon.web.console import Console
from buddy.daemon.web.cookies import cookie_name
from buddy.daemon.web.health import Health
from buddy.daemon.web.identity import Identities, UserTokens
from buddy.daemon.web.logins import OwnerLogins
from buddy.daemon.web.origins import Origins
from buddy.daemon.web.static_files import load_console
from buddy.daemon.web.websockets import WebSockets

TOKEN_LENGTH = 40
TICK_SECONDS = 1.0
MAX_FRAMES = 4
"""Messages up to this many times the frame limit are read, to answer them with an error; longer ones are not read."""

log = logging.getLogger("buddy.web")


async def serve_web(
    runtime: Runtime,
    listen: Listen,
    state_dir: Path,
    logins: OwnerLogins,
    listening: socket.socket,
    users: UserTokens | None = None,
) -> None:
    """Serve until cancelled; `listen` has the real port. The owner's token is in a file of the state directory."""
    token = owner_token(state_dir)
    runtime.scrubber.register(token)
    waiting = WaitingPeers(min(MAX_WAITING, runtime.limits.connections))
    identities = Identities(runtime.sessions.tokens, logins, token, runtime.disconnect_token, users)
    origins = Origins(listen)
    sockets = WebSockets(runtime, identities, origins, waiting, cookie_name(listen))
    console = Console(listen, load_console(), identities, origins)
    routes = [
        *Health(runtime).routes(),
        WebSocketRoute("/", sockets.enter),
        WebSocketRoute("/ws", sockets.enter),
        Route("/{path:path}", console),
    ]
    config = uvicorn.Config(
        Starlette(routes=routes),
        http=bounded_http(runtime.limits, waiting),
        log_config=None,
        access_log=False,
        lifespan="off",
        ws_max_size=runtime.limits.frame * MAX_FRAMES,
        ssl_certfile=listen.certificate,
        ssl_keyfile=listen.key,
        server_header=False,
        proxy_headers=False,
    )
    # It would log every requested URL, including those with a token in them by mistake.
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    logging.getLogger("uvicorn.error").addFilter(_is_relevant)
    log.info("WebSocket on %s:%d%s", listen.host, listen.port, " with TLS" if listen.certificate else "")
    server = _Quiet(config)
    serving = asyncio.get_running_loop().create_task(server.serve([listening]))
    try:
        await asyncio.shield(serving)
    finally:
        server.stop()
        await asyncio.wait([serving])


class _Quiet(uvicorn.Server):
    """A server that leaves the signals to the daemon, which stops it by cancelling.

    It wakes once a second, for the Date header, instead of ten times to see whether it was stopped.
    """

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        self.should_exit = self.force_exit = True
        self._stopping.set()

    async def main_loop(self) -> None:
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(TICK_SECONDS):
                    await self._stopping.wait()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


def _is_relevant(record: logging.LogRecord) -> bool:
    """The server reports each refused upgrade as an error; the refusal itself is logged by `_deny`."""
    return "without completing handshake" not in record.getMessage()


def owner_token(state_dir: Path) -> str:
    """The owner's token, created once: anyone who can read the state directory is the owner."""
    path = state_dir / TOKEN_FILE
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
