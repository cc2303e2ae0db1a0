"""Login with a browser on this machine: authorization code with PKCE, redirected to a loopback address.

Invariants: the listener is on 127.0.0.1 only, for one request with the right `state`; the code is worthless without the
verifier, which is sent to nobody but the issuer; the page shown repeats nothing from the request.
"""

import base64
import hashlib
import hmac
import secrets
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlencode, urlsplit

from msgspec import Struct

from buddy.errors import UserError
from buddy.models.login.issuer import SCOPE, Endpoints, Issuer
from buddy.models.login.oauth import post_form, read_tokens
from buddy.models.login.tokens import LoginTokens

if TYPE_CHECKING:
    import httpx2

SECONDS = 300.0
OPENAI_PORT = 1455

_PAGE = b"<!doctype html><meta charset=utf-8><title>Buddy</title><p>%b You can close this page."


class _Outcome(Struct, frozen=True):
    code: str = ""
    error: str = ""


class _Listener(HTTPServer):
    """Waits for the browser; the result is in `outcome`."""

    def __init__(self, port: int, path: str, state: str) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.path = path
        self.state = state
        self.outcome: _Outcome | None = None

    def take(self, target: str) -> tuple[int, bytes]:
        """Handle a request; return the status and the text of its page."""
        parts = urlsplit(target)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        if parts.path != self.path:
            return 404, b"Not found."
        if not hmac.compare_digest(query.get("state", "").encode(), self.state.encode()):
            return 400, b"This login was not started here."
        if self.outcome is None:
            self.outcome = _Outcome(query.get("code", ""), "" if query.get("code") else query.get("error", "no code"))
        return 200, b"You are logged in." if self.outcome.code else b"The login was not completed."


class _Handler(BaseHTTPRequestHandler):
    server: _Listener  # pyright: ignore[reportIncompatibleVariableOverride] - the base class knows only any server
    timeout = 5.0

    def do_GET(self) -> None:
        status, text = self.server.take(self.path)
        page = _PAGE % text
        self.send_response(status)
        self.send_header("content-type", "text/html; charset=utf-8")
        self.send_header("content-length", str(len(page)))
        self.send_header("content-security-policy", "default-src 'none'")
        self.send_header("connection", "close")
        self.end_headers()
        self.wfile.write(page)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Log nothing: the URL contains the code."""


def log_in_with_browser(
    issuer: Issuer,
    endpoints: Endpoints,
    http: "httpx2.Client",
    show: Callable[[str], None],
    seconds: float = SECONDS,
) -> LoginTokens:
    """Pass the URL to `show`, which opens or prints it, and wait for the browser's redirect."""
    if not endpoints.authorize:
        raise UserError(f"{issuer.url} has no browser login", hint="use --device")
    verifier, state = secrets.token_urlsafe(64), secrets.token_urlsafe(32)
    with _listen(issuer, state) as listener:
        redirect = _redirect(issuer, listener)
        show(f"{endpoints.authorize}?{urlencode(_query(issuer, redirect, state, verifier))}")
        code = _wait_for_code(listener, seconds)
    fields = {
        "grant_type": "authorization_code",
        "code": code,
        "code_verifier": verifier,
        "client_id": issuer.client_id,
        "redirect_uri": redirect,
    }
    return read_tokens(post_form(http, endpoints.token, fields))


def _listen(issuer: Issuer, state: str) -> _Listener:
    # OpenAI accepts only this address of its client; others accept any loopback port (RFC 8252).
    port, path = (OPENAI_PORT, "/auth/callback") if issuer.is_openai else (0, "/callback")
    try:
        return _Listener(port, path, state)
    except OSError as error:
        hint = "stop the program that uses it, or log in with --device"
        raise UserError(f"can't listen on port {port}: {error.strerror}", hint=hint, exit_code=75) from error


def _redirect(issuer: Issuer, listener: _Listener) -> str:
    host = "localhost" if issuer.is_openai else "127.0.0.1"
    return f"http://{host}:{listener.server_port}{listener.path}"


def _query(issuer: Issuer, redirect: str, state: str, verifier: str) -> dict[str, str]:
    challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
    query = {
        "response_type": "code",
        "client_id": issuer.client_id,
        "redirect_uri": redirect,
        "scope": SCOPE,
        "code_challenge": challenge,
        "code_challenge_method": "S256",
        "state": state,
    }
    if issuer.is_openai:
        query |= {"id_token_add_organizations": "true", "codex_cli_simplified_flow": "true"}
    return query


def _wait_for_code(listener: _Listener, seconds: float) -> str:
    deadline = time.monotonic() + seconds
    while listener.outcome is None:
        listener.timeout = deadline - time.monotonic()
        if listener.timeout <= 0:
            raise UserError(
                "the login in the browser was not completed in time", hint="try again, or use --device", exit_code=1
            )
        listener.handle_request()
    if listener.outcome.code:
        return listener.outcome.code
    why = "denied" if listener.outcome.error == "access_denied" else f"refused: {listener.outcome.error[:100]}"
    raise UserError(f"the login was {why}", hint="if that was a mistake, run buddy login again", exit_code=1)
