"""The daemon's web listener, opened with the daemon or on request.

Invariants: there is at most one; a page that was open before a restart finds it at the same address, if that is free;
nothing of it is imported before it is opened.
"""

import asyncio
import contextlib
import importlib
import logging
import socket
from pathlib import Path

from msgspec.structs import replace

from buddy.config.places import Places
from buddy.config.settings import Config
from buddy.daemon.limits import Limits
from buddy.daemon.listen import TOKEN_FILE, Listen, address_of, is_loopback, parse_listen, parse_public
from buddy.daemon.node import has_several_users
from buddy.daemon.runtime import Runtime
from buddy.daemon.web.identity import UserTokens
from buddy.daemon.web.logins import OwnerLogins
from buddy.daemon.web.redirects import Redirects
from buddy.errors import ProtocolError, UserError
from buddy.protocol.web_requests import MintWebLink, MintWebLinkReply, OpenWeb

FIRST_PORT = 7878
PORTS = 20

log = logging.getLogger("buddy.web")


class Web:
    def __init__(self, runtime: Runtime, places: Places) -> None:
        self._runtime = runtime
        self._state_dir = places.state_dir
        self._logins = OwnerLogins(places.state_dir, runtime.sessions.tokens.now, runtime.disconnect_token)
        self._redirects = Redirects(places.state_dir)
        self._opening = asyncio.Lock()
        self._listen: Listen | None = None
        self._serving: asyncio.Task[None] | None = None
        self._users: UserTokens | None = None

    def bind(self, listen: Listen) -> socket.socket:
        """The listening socket; UserError if the address or the settings of users cannot be used."""
        self._users = _user_tokens(self._runtime.configuration.current)
        listening = bind_web(listen, self._runtime.limits)
        self._runtime.web_address = address_of(listen, listening.getsockname()[1])
        self._runtime.web_token_file = str(self._state_dir / TOKEN_FILE)
        return listening

    async def serve(self, listen: Listen, listening: socket.socket) -> None:
        """Serve on a socket that is bound."""
        await asyncio.to_thread(importlib.import_module, "buddy.daemon.web.listener")
        from buddy.daemon.web.listener import serve_web

        configuration = self._runtime.configuration
        public = parse_public(configuration.current.node.public_url, configuration.env.get("BUDDY_HOST", ""))
        self._listen = replace(listen, port=listening.getsockname()[1], public=public)
        serving = serve_web(self._runtime, self._listen, self._state_dir, self._logins, listening, self._users)
        self._serving = asyncio.get_running_loop().create_task(serving)

    async def reopen(self) -> None:
        """Listen where a page may try to reconnect."""
        address = self._logins.last_address
        if address is None or not self._logins.is_return_expected:
            return
        async with self._opening:
            if self._listen is None:
                try:
                    await self.serve(address, self.bind(address))
                except UserError as error:
                    log.warning("the console is closed: %s", error)

    async def close(self) -> None:
        self._redirects.close()
        if self._serving is not None:
            self._serving.cancel()
            await asyncio.wait([self._serving])

    # --- what handlers use -----------------------------------------------------------------------------------------

    async def open(self, request: OpenWeb) -> str:
        """Listen, unless it does already; the address of the page."""
        wanted = request.listen and parse_listen(
            request.listen, certificate=request.tls_cert, key=request.tls_key, allow_remote=request.allow_remote
        )
        if wanted and not is_loopback(wanted.host) and wanted.certificate is None:
            raise UserError(
                f"{wanted.host} can be reached from other machines, and without TLS others can read the login",
                hint="pass --tls-cert and --tls-key, or use 127.0.0.1 and an ssh tunnel",
            )
        async with self._opening:
            if self._listen is None:
                listen, listening = self._bind_first(wanted or None)
                await self.serve(listen, listening)
                self._logins.remember(self._listen or listen)
            elif wanted and not _is_served(wanted, self._listen):
                raise UserError(
                    f"the console is already open on {self._listen.host}:{self._listen.port}",
                    hint="leave out --listen, or restart the daemon: buddy daemon stop",
                )
        return self._url()

    def mint_link(self, request: MintWebLink) -> MintWebLinkReply:
        """A link that logs the owner in, once."""
        url = self._url()
        token, deadline = self._logins.mint_link(request.expires_in_seconds)
        link = f"{url}#token={token}"
        page = self._redirects.create(link, request.expires_in_seconds) if request.page else None
        return MintWebLinkReply(link, deadline.unix_ms, page and str(page))

    def log_out_all(self) -> int:
        ended = self._logins.log_out_all()
        for login_hash in ended:
            self._runtime.disconnect_token(login_hash)
        return len(ended)

    def _bind_first(self, wanted: Listen | None) -> tuple[Listen, socket.socket]:
        """The address that is wanted; else the last one, or the first free port."""
        if wanted is not None:
            return wanted, self.bind(wanted)
        last = self._logins.last_address
        tried = [last] if last is not None else []
        tried += [Listen("127.0.0.1", port) for port in (*range(FIRST_PORT, FIRST_PORT + PORTS), 0)]
        for listen in tried[:-1]:
            with contextlib.suppress(UserError):
                return listen, self.bind(listen)
        return tried[-1], self.bind(tried[-1])

    def _url(self) -> str:
        if self._listen is None:
            raise ProtocolError("INVALID_REQUEST", "the console is not open; send open_web first")
        return self._listen.url


def _user_tokens(config: Config) -> UserTokens | None:
    if not has_several_users(config):
        return None
    try:
        from buddy.daemon.web.json_web_tokens import make_verifier
    except ModuleNotFoundError as error:
        hint = "pip install '.[jwt]' in Buddy's clone"
        raise UserError(f'[auth] mode = "jwt" needs the package {error.name}', hint=hint) from error
    return make_verifier(config.auth, Path(config.source).parent)


def _is_served(wanted: Listen, by: Listen) -> bool:
    return wanted.port in (0, by.port) and wanted.host == by.host and wanted.certificate == by.certificate


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
        listening.listen()
    except OSError as error:
        listening.close()
        raise UserError(
            f"cannot listen on {listen.host}:{listen.port}: {error.strerror}", hint="choose another port with --listen"
        ) from error
    return listening
