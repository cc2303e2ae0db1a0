"""Logging in, against a real OAuth server."""

import stat
import threading
import urllib.request
from collections.abc import Callable
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest

from buddy.errors import ProviderError, UserError
from buddy.models.login.account import LoginScreen, log_in, log_out
from buddy.models.login.browser import log_in_with_browser
from buddy.models.login.device import SLOWER, start_pairing, wait_for_tokens
from buddy.models.login.issuer import OPENAI, OPENAI_CLIENT, Issuer, find_endpoints, find_issuer
from buddy.models.login.oauth import open_client
from buddy.models.login.tokens import AuthFile, LoginTokens
from tests.harness.oauth_server import OAuthServer
from tests.harness.processes import PATIENCE

BOTH = pytest.mark.parametrize("standard", [True, False], ids=["standard", "openai"])


def pair(server: OAuthServer, speed: float = 1.0) -> tuple[LoginTokens, list[float]]:
    """Log in with a device; returns the tokens and the waits. Time runs with this speed."""
    waits: list[float] = []
    issuer = find_issuer(server.url, "client")
    with open_client() as http:
        pairing = start_pairing(issuer, find_endpoints(issuer, http), http)
        assert pairing.code == "ABCD-EFGH"
        return wait_for_tokens(pairing, sleep=waits.append, clock=lambda: speed * sum(waits)), waits


def follow(address: str) -> None:
    """Be the browser: go to the address, and on to where that leads."""
    with urllib.request.urlopen(address, timeout=PATIENCE) as page:  # noqa: S310 - loopback
        page.read()


def browse(server: OAuthServer, visit: Callable[[str], None] = follow, seconds: float = 10.0) -> LoginTokens:
    visits: list[threading.Thread] = []

    def show(address: str) -> None:
        visits.append(threading.Thread(target=visit, args=(address,)))
        visits[-1].start()

    issuer = find_issuer(server.url, "client")
    with open_client() as http:
        try:
            return log_in_with_browser(issuer, find_endpoints(issuer, http), http, show, seconds)
        finally:
            for thread in visits:
                thread.join()


@BOTH
def test_a_device_logs_in_once_the_person_has_entered_the_code(standard: bool):
    with OAuthServer(standard=standard, polls=["pending", "pending"]) as server:
        tokens, waits = pair(server)
    assert (tokens.access_token, tokens.refresh_token) == ("access-token-1", "refresh-token-1")
    assert waits == [2.0, 2.0, 2.0]


def test_a_device_asks_less_often_when_the_issuer_says_so():
    with OAuthServer(polls=["slow_down", "pending", "slow_down"]) as server:
        _, waits = pair(server)
    assert waits == [2.0, 2.0 + SLOWER, 2.0 + SLOWER, 2.0 + 2 * SLOWER]


@pytest.mark.parametrize(("word", "said"), [("access_denied", "denied"), ("expired_token", "has expired")])
def test_a_refused_device_login_reports_the_reason(word: str, said: str):
    with OAuthServer(polls=["pending", word]) as server, pytest.raises(UserError, match=said):
        pair(server)


def test_a_refusal_in_the_other_flow_is_reported_too():
    with OAuthServer(standard=False, polls=["denied"]) as server, pytest.raises(UserError, match="denied"):
        pair(server)


@BOTH
def test_a_code_that_is_never_entered_expires(standard: bool):
    with (
        OAuthServer(standard=standard, polls=["pending"] * 1000) as server,
        pytest.raises(UserError, match="has expired"),
    ):
        pair(server, speed=50.0)


@BOTH
def test_a_browser_logs_in_with_a_verifier_that_only_we_know(standard: bool):
    with OAuthServer(standard=standard) as server:
        tokens = browse(server)
        asked = dict(server.requests)["/oauth/authorize"]
        exchanged = dict(server.requests)["/oauth/token"]
    assert tokens.access_token == "access-token-1"
    assert asked["code_challenge_method"] == "S256"
    assert "code_verifier" not in asked
    assert len(exchanged["code_verifier"]) >= 43
    assert urlsplit(asked["redirect_uri"]).hostname == "127.0.0.1"


def test_a_login_denied_in_the_browser_is_reported():
    with OAuthServer() as server:
        server.denies = True
        with pytest.raises(UserError, match="the login was denied"):
            browse(server)


def test_a_browser_login_times_out():
    with OAuthServer() as server, pytest.raises(UserError, match="not completed in time"):
        browse(server, visit=lambda _: None, seconds=0.05)


def test_only_the_started_login_is_accepted():
    statuses: list[int] = []

    def visit(address: str) -> None:
        query = parse_qs(urlsplit(address).query)
        redirect, state = query["redirect_uri"][0], query["state"][0]
        for target in (
            f"{redirect}?code=stolen&state=guess",
            f"{redirect}?code=stolen",
            f"{redirect}/else?state={state}",
        ):
            with pytest.raises(HTTPError) as refused:
                follow(target)
            statuses.append(refused.value.code)
            refused.value.close()
        follow(address)

    with OAuthServer() as server:
        assert browse(server, visit).access_token == "access-token-1"
    assert statuses == [400, 400, 404]


def test_an_openai_login_uses_the_redirect_url_registered_with_openai():
    issuer = find_issuer("", "")
    assert issuer == Issuer("openai", OPENAI, OPENAI_CLIENT)
    with httpx2.Client(transport=httpx2.MockTransport(lambda _: httpx2.Response(500))) as http:
        endpoints = find_endpoints(issuer, http)
    assert endpoints.token == "https://auth.openai.com/oauth/token"
    assert (endpoints.device, endpoints.accounts) == ("", OPENAI)


def test_other_issuers_keep_their_tokens_apart():
    names = {find_issuer(*pair).name for pair in (("", ""), ("https://a.example/", "c"), ("https://a.example", "d"))}
    assert names == {"openai", "https://a.example#c", "https://a.example#d"}


@pytest.mark.parametrize("url", ["http://login.example", "ftp://127.0.0.1", "login.example", "https://"])
def test_tokens_are_not_sent_in_the_clear(url: str):
    with pytest.raises(UserError, match="require https"):
        find_issuer(url, "c")


def test_metadata_of_another_issuer_is_refused():
    with OAuthServer() as server, open_client() as http:
        port = urlsplit(server.url).port
        with pytest.raises(UserError, match="publishes the metadata of"):
            find_endpoints(find_issuer(f"http://localhost:{port}", "c"), http)


def test_logging_in_and_out_changes_one_private_file(tmp_path: Path):
    auth = AuthFile(tmp_path / "buddy" / "auth.json")
    screen = LoginScreen(lambda _: None, lambda address: threading.Thread(target=follow, args=(address,)).start())
    with OAuthServer() as server:
        issuer = find_issuer(server.url, "client")
        log_in(issuer, auth, "browser", screen)
        assert auth.read(issuer.name) == LoginTokens("access-token-1", "refresh-token-1", auth_expiry(auth, issuer))
        assert stat.S_IMODE(auth.path.stat().st_mode) == 0o600
        assert stat.S_IMODE(auth.path.parent.stat().st_mode) == 0o700
        assert log_out(issuer, auth) is True
        assert server.refresh_token == "", "the issuer took it back"
        assert log_out(issuer, auth) is False
    assert auth.read(issuer.name) is None


def auth_expiry(auth: AuthFile, issuer: Issuer) -> int:
    tokens = auth.read(issuer.name)
    assert tokens is not None
    return tokens.expires_at_unix


def test_logging_out_works_without_the_issuer(tmp_path: Path):
    auth = AuthFile(tmp_path / "auth.json")
    issuer = find_issuer("http://127.0.0.1:9", "client")
    with auth.lock():
        auth.save(issuer.name, LoginTokens("a", "r", 0))
    assert log_out(issuer, auth) is True


def test_an_unreachable_login_server_is_reported(tmp_path: Path):
    with OAuthServer() as server:
        issuer = find_issuer(server.url, "client")
        server.is_down = True
        with pytest.raises(ProviderError, match="answered 503") as failed:
            log_in(issuer, AuthFile(tmp_path / "auth.json"), "device", LoginScreen(lambda _: None, lambda _: None))
    assert failed.value.retryable
