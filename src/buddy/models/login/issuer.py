"""Issuers of tokens and their endpoints.

Invariants: an issuer that publishes its metadata (RFC 8414, OpenID discovery) is used by the standards; one that does
not is assumed to have the paths of OpenAI's. Tokens are only sent over TLS, or within this machine.
"""

import ipaddress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from buddy.errors import UserError
from buddy.models.login.oauth import get

if TYPE_CHECKING:
    import httpx2

OPENAI = "https://auth.openai.com"
OPENAI_CLIENT = "app_EMoamEEZ73f0CkXaXp7hrann"
SCOPE = "openid profile email offline_access"

_METADATA = ("/.well-known/oauth-authorization-server", "/.well-known/openid-configuration")


class Issuer(Struct, frozen=True):
    """`name` is the key of its tokens: profiles with the same issuer share one login."""

    name: str
    url: str
    client_id: str

    @property
    def is_openai(self) -> bool:
        return self.url == OPENAI


class Endpoints(Struct, frozen=True):
    """`accounts` is where OpenAI's own device flow lives; `device` is the standard one. Empty if not offered."""

    token: str
    authorize: str = ""
    device: str = ""
    accounts: str = ""
    revoke: str = ""


class _Metadata(Struct, frozen=True):
    issuer: str
    token_endpoint: str
    authorization_endpoint: str = ""
    device_authorization_endpoint: str = ""
    revocation_endpoint: str = ""


def find_issuer(issuer: str, client_id: str) -> Issuer:
    """The issuer of a profile; OpenAI by default."""
    url = issuer.rstrip("/") or OPENAI
    _check_private(url)
    client = client_id or OPENAI_CLIENT
    name = "openai" if (url, client) == (OPENAI, OPENAI_CLIENT) else f"{url}#{client}"
    return Issuer(name, url, client)


def find_endpoints(issuer: Issuer, http: "httpx2.Client") -> Endpoints:
    if issuer.is_openai:
        return _like_openai(issuer.url)
    for path in _METADATA:
        response = get(http, issuer.url + path)
        if response.status_code == 200:
            return _parse_metadata(response.content, issuer)
    return _like_openai(issuer.url)


def _like_openai(url: str) -> Endpoints:
    return Endpoints(
        token=f"{url}/oauth/token", authorize=f"{url}/oauth/authorize", accounts=url, revoke=f"{url}/oauth/revoke"
    )


def _parse_metadata(metadata: bytes, issuer: Issuer) -> Endpoints:
    try:
        found = msgspec.json.decode(metadata, type=_Metadata)
    except msgspec.DecodeError as error:
        raise UserError(f"{issuer.url} publishes metadata without issuer and token_endpoint") from error
    if found.issuer.rstrip("/") != issuer.url:
        raise UserError(
            f"{issuer.url} publishes the metadata of {found.issuer}", hint="if that is intended, set issuer to it"
        )
    endpoints = Endpoints(
        token=found.token_endpoint,
        authorize=found.authorization_endpoint,
        device=found.device_authorization_endpoint,
        revoke=found.revocation_endpoint,
    )
    for url in (endpoints.token, endpoints.authorize, endpoints.device, endpoints.revoke):
        if url:
            _check_private(url)
    return endpoints


def _check_private(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme == "https" and parts.hostname:
        return
    if parts.scheme == "http" and _is_loopback(parts.hostname or ""):
        return
    raise UserError(f"can't log in to {url!r}: tokens require https", hint="check issuer in the profile")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
