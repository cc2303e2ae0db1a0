"""Logins to MCP servers: tokens in one private file per server, used and renewed without a person.

Invariants: a file has mode 0600 and belongs to one address, so that tokens are never sent elsewhere; an expired token
is renewed with what was stored, also after a restart; without a person, a server that wants a new login is an error
that says so.
"""

import hashlib
import time
import urllib.parse
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
from mcp.client.auth import OAuthClientProvider
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
)
from msgspec import Struct
from pydantic import AnyUrl, ValidationError

from buddy.config.mcp import McpOauth
from buddy.errors import UserError
from buddy.shared_files import replace_content
from buddy.tools.mcp.contract import NeedsLogin

REDIRECT = "http://127.0.0.1:{port}/callback"
# Renewed a little early, so that a token does not expire on its way.
EARLY_SECONDS = 30.0
SECRETS = ("access_token", "refresh_token", "id_token", "client_secret", "registration_access_token")

Redirect = Callable[[str], Awaitable[None]]
Callback = Callable[[], Awaitable[AuthorizationCodeResult]]


class Stored(Struct, frozen=True):
    url: str
    tokens: dict[str, Any] | None = None
    client: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None
    issuer: str = ""
    expires_at: float | None = None


class TokenFile:
    """Satisfies the SDK's `TokenStorage`; `context` is what the SDK has found out about the server."""

    def __init__(self, folder: Path, name: str, url: str, hide: Callable[[str], None] = lambda _: None) -> None:
        """`hide` gets every secret that is read or stored."""
        self.path = token_path(folder, name)
        self._url = url
        self._hide = hide

    def read(self) -> Stored:
        """What is stored for this address; nothing if the file is another's or cannot be read."""
        try:
            found = msgspec.json.decode(self.path.read_bytes(), type=Stored)
        except (OSError, msgspec.MsgspecError):
            return Stored(self._url)
        if found.url != self._url:
            return Stored(self._url)
        self._hide_secrets(found)
        return found

    def write(self, stored: Stored) -> None:
        self._hide_secrets(stored)
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_content(self.path, msgspec.json.encode(stored))
        self.path.chmod(0o600)

    def forget(self) -> None:
        self.path.unlink(missing_ok=True)

    def update(self, **changes: Any) -> None:
        self.write(msgspec.structs.replace(self.read(), **changes))

    def _hide_secrets(self, stored: Stored) -> None:
        values = {**(stored.tokens or {}), **(stored.client or {})}
        for name in SECRETS:
            if isinstance(secret := values.get(name), str):
                self._hide(secret)

    async def get_tokens(self) -> OAuthToken | None:
        tokens = self.read().tokens
        return OAuthToken.model_validate(tokens) if tokens else None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        expires = time.time() + tokens.expires_in if tokens.expires_in else None
        self.update(tokens=tokens.model_dump(mode="json", exclude_none=True), expires_at=expires)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        client = self.read().client
        return OAuthClientInformationFull.model_validate(client) if client else None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.update(client=client_info.model_dump(mode="json", exclude_none=True))


class Login(OAuthClientProvider):
    """The SDK's provider, which also remembers when a token expires and where it is renewed."""

    def __init__(
        self,
        url: str,
        storage: TokenFile,
        port: int,
        redirect: Redirect,
        callback: Callback,
        client: McpOauth | None = None,
    ) -> None:
        """`client` is one that the authorization server knows already; without it, one is registered."""
        client = client or McpOauth()
        metadata = OAuthClientMetadata(
            redirect_uris=[AnyUrl(REDIRECT.format(port=port))],
            client_name="Buddy",
            grant_types=["authorization_code", "refresh_token"],
            token_endpoint_auth_method="none",  # noqa: S106 - the method of a client without a secret
        )
        document = client.client_metadata_url or None
        super().__init__(url, metadata, storage, redirect, callback, client_metadata_url=document)
        self._file = storage
        self._known = _known_client(client, metadata) if client.client_id else None

    async def _initialize(self) -> None:
        await super()._initialize()
        if self._known is not None:
            self.context.client_info = self._known
        stored = self._file.read()
        if stored.expires_at is not None:
            self.context.token_expiry_time = stored.expires_at - EARLY_SECONDS
        if stored.metadata:
            try:
                self.context.oauth_metadata = OAuthMetadata.model_validate(stored.metadata)
                self.context.auth_server_url = stored.issuer or None
            except ValidationError:
                return

    def remember_server(self) -> None:
        """Store where tokens are renewed."""
        found = self.context.oauth_metadata
        if found is not None:
            shown = found.model_dump(mode="json", exclude_none=True)
            self._file.update(metadata=shown, issuer=self.context.auth_server_url or "")


def _known_client(client: McpOauth, metadata: OAuthClientMetadata) -> OAuthClientInformationFull:
    return OAuthClientInformationFull(
        client_id=client.client_id,
        client_secret=client.client_secret or None,
        redirect_uris=metadata.redirect_uris,
        grant_types=metadata.grant_types,
        token_endpoint_auth_method=client.auth_method if client.client_secret else "none",
        issuer=client.issuer or None,
    )


def stored_login(
    folder: Path, name: str, url: str, hide: Callable[[str], None] = lambda _: None, client: McpOauth | None = None
) -> Login | None:
    """The login that was done before; None if there is none."""
    storage = TokenFile(folder, name, url, hide)
    if not storage.read().tokens:
        return None

    async def redirect(_url: str) -> None:
        raise NeedsLogin("its login has expired")

    async def callback() -> AuthorizationCodeResult:
        raise NeedsLogin("its login has expired")

    return Login(url, storage, 0, redirect, callback, client)


def token_path(folder: Path, name: str) -> Path:
    """The file of a server; names that differ only in case stay apart."""
    mark = hashlib.sha256(name.encode()).hexdigest()[:8]
    return folder / "mcp" / f"{name}-{mark}.json"


def code_in(url: str) -> AuthorizationCodeResult:
    """The code in the address that a browser was sent back to; UserError if the login was refused."""
    query = urllib.parse.parse_qs(urllib.parse.urlsplit(url.strip()).query)
    values = {key: value[0] for key, value in query.items()}
    if "error" in values:
        raise UserError(
            f"the server refused the login: {values.get('error_description') or values['error']}", exit_code=1
        )
    if "code" not in values:
        raise UserError("that address has no code in it", hint="paste the complete address of the page you ended up on")
    return AuthorizationCodeResult(code=values["code"], state=values.get("state"), iss=values.get("iss"))
