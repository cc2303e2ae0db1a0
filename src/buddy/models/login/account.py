"""Logs a person in and out, and stores the tokens."""

from collections.abc import Callable
from contextlib import suppress
from typing import Literal

from buddy.errors import BuddyError
from buddy.models.login.browser import log_in_with_browser
from buddy.models.login.device import Pairing, start_pairing, wait_for_tokens
from buddy.models.login.issuer import Issuer, find_endpoints
from buddy.models.login.oauth import open_client, post_form
from buddy.models.login.tokens import AuthFile

Flow = Literal["device", "browser"]


class LoginScreen:
    """Shows the person what to do."""

    def __init__(self, pairing: Callable[[Pairing], None], address: Callable[[str], None]) -> None:
        self.pairing = pairing
        self.address = address


def log_in(issuer: Issuer, auth: AuthFile, flow: Flow, screen: LoginScreen) -> None:
    """Have the person log in and store the tokens; UserError or ProviderError if that fails."""
    with open_client() as http:
        endpoints = find_endpoints(issuer, http)
        if flow == "browser":
            tokens = log_in_with_browser(issuer, endpoints, http, screen.address)
        else:
            pairing = start_pairing(issuer, endpoints, http)
            screen.pairing(pairing)
            tokens = wait_for_tokens(pairing)
    with auth.lock():
        auth.save(issuer.name, tokens)


def log_out(issuer: Issuer, auth: AuthFile) -> bool:
    """Revoke the tokens at the issuer if it can be reached, and delete them; False if there were none."""
    with auth.lock():
        tokens = auth.read(issuer.name)
        was_in = auth.forget(issuer.name)
    if tokens is not None:
        with suppress(BuddyError), open_client() as http:
            revoke = find_endpoints(issuer, http).revoke
            if revoke:
                token = tokens.refresh_token or tokens.access_token
                post_form(http, revoke, {"token": token, "client_id": issuer.client_id})
    return was_in
