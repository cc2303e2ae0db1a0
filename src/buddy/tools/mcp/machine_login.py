"""Logins to MCP servers without a person: by a secret, a key, or a token that the platform gives to a workload.

Invariants: secrets, signed assertions and tokens go to the configured issuer alone; an assertion that was refused is
not sent a second time.
"""

from collections.abc import Callable
from pathlib import Path

import httpx2
from mcp.client.auth import OAuthClientProvider
from mcp.client.auth.extensions.client_credentials import (
    ClientCredentialsOAuthProvider,
    PrivateKeyJWTOAuthProvider,
    SignedJWTParameters,
)
from mcp.shared.auth import JWT_BEARER_GRANT_TYPE, OAuthClientInformationFull

from buddy.config.mcp import McpOauth
from buddy.errors import UserError
from buddy.tools.mcp.definitions import ServerDefinition
from buddy.tools.mcp.oauth import TokenFile, stored_login


def login_of(folder: Path, server: ServerDefinition, hide: Callable[[str], None]) -> OAuthClientProvider | None:
    """How a server is logged in to without a person: by its own credentials, or by what a person did before."""
    if server.oauth is not None and server.oauth.is_machine:
        return machine_login(server.url, TokenFile(folder, server.name, server.url, hide), server.oauth)
    return stored_login(folder, server.name, server.url, hide, server.oauth)


def machine_login(url: str, storage: TokenFile, client: McpOauth) -> OAuthClientProvider:
    """UserError if the key cannot be read."""
    scope = client.scope or None
    if client.grant == "jwt_bearer":
        return WorkloadLogin(url, storage, client)
    if not client.private_key_file:
        method = client.auth_method
        return ClientCredentialsOAuthProvider(
            url, storage, client.client_id, client.client_secret, method, scope, client.issuer
        )
    signed = SignedJWTParameters(
        issuer=client.client_id,
        subject=client.client_id,
        signing_key=_read(client.private_key_file),
        signing_algorithm=client.signing_algorithm,
    )
    signing = signed.create_assertion_provider()
    return PrivateKeyJWTOAuthProvider(url, storage, client.client_id, signing, scope, client.issuer)


class WorkloadLogin(ClientCredentialsOAuthProvider):
    """Presents a token of the workload's platform, read again each time (RFC 7523, JWT bearer)."""

    def __init__(self, url: str, storage: TokenFile, client: McpOauth) -> None:
        super().__init__(url, storage, client.client_id, "", scope=client.scope or None, issuer=client.issuer)
        self._assertion_file = client.assertion_file
        self._fixed_client_info = OAuthClientInformationFull(
            redirect_uris=None,
            client_id=client.client_id,
            grant_types=[JWT_BEARER_GRANT_TYPE],
            token_endpoint_auth_method="none",  # noqa: S106 - the method of a client without a secret
            scope=client.scope or None,
        )

    async def _exchange_token_client_credentials(self) -> httpx2.Request:
        request = await super()._exchange_token_client_credentials()  # which checks the issuer
        data = {
            "grant_type": JWT_BEARER_GRANT_TYPE,
            "assertion": _read(self._assertion_file).strip(),
            "client_id": self._fixed_client_info.client_id,
        }
        if self.context.should_include_resource_param(self.context.protocol_version):
            data["resource"] = self.context.get_resource_url()
        if self.context.client_metadata.scope:
            data["scope"] = self.context.client_metadata.scope
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        return httpx2.Request("POST", request.url, data=data, headers=headers)


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read {path}: {error}", hint="correct it in [mcp.servers.NAME.oauth]") from error
