"""Logging in on another device: a code is shown here and typed in there.

What always holds: the issuer is asked no more often than it allows, and not after the code has run out; two kinds are
spoken, the standard one (RFC 8628) and OpenAI's own.
"""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from buddy.errors import UserError
from buddy.models.login.answers import Refused, check, fault_of, post_form, post_json, read, read_tokens
from buddy.models.login.issuer import SCOPE, Endpoints, Issuer
from buddy.models.login.tokens import Tokens

if TYPE_CHECKING:
    import httpx2

OPENAI_SECONDS = 15 * 60
DEFAULT_INTERVAL = 5.0
SLOWER = 5.0

_GRANT = "urn:ietf:params:oauth:grant-type:device_code"


class Pairing(Struct, frozen=True):
    """What the person is shown (`url` and `code`), and how the answer is asked for."""

    url: str
    code: str
    interval: float
    seconds: float
    ask: Callable[[], Tokens | None]
    direct_url: str = ""


class TooFast(Exception):
    """The issuer wants to be asked less often."""


def start_pairing(issuer: Issuer, endpoints: Endpoints, http: "httpx2.Client") -> Pairing:
    if endpoints.accounts:
        return _start_openai(issuer, endpoints, http)
    if endpoints.device:
        return _start_standard(issuer, endpoints, http)
    raise UserError(f"{issuer.url} has no device login", hint="use --browser")


def wait_for_tokens(
    pairing: Pairing, sleep: Callable[[float], None] = time.sleep, clock: Callable[[], float] = time.monotonic
) -> Tokens:
    """Ask until the person has decided; UserError where the answer is no, or none came in time."""
    deadline, interval = clock() + pairing.seconds, pairing.interval
    while clock() + interval < deadline:
        sleep(interval)
        try:
            tokens = pairing.ask()
        except TooFast:
            interval += SLOWER
        except Refused as error:
            raise _refusal(error) from error
        else:
            if tokens is not None:
                return tokens
    raise _expired()


def _expired() -> UserError:
    return UserError("the code was not used in time", hint="start again: buddy login", exit_code=1)


def _refusal(error: Refused) -> UserError:
    if error.code == "expired_token":
        return _expired()
    if error.code == "access_denied":
        return UserError(
            "the login was denied", hint="start again with buddy login, if that was a mistake", exit_code=1
        )
    return UserError(str(error), exit_code=1)


# --- the standard one ----------------------------------------------------------------------------------------------


class _Started(Struct, frozen=True):
    device_code: str
    user_code: str
    verification_uri: str
    verification_uri_complete: str = ""
    expires_in: float = 900.0
    interval: float = DEFAULT_INTERVAL


def _start_standard(issuer: Issuer, endpoints: Endpoints, http: "httpx2.Client") -> Pairing:
    answer = post_form(http, endpoints.device, {"client_id": issuer.client_id, "scope": SCOPE})
    check(answer)
    started = read(answer, _Started)
    fields = {"grant_type": _GRANT, "device_code": started.device_code, "client_id": issuer.client_id}

    def ask() -> Tokens | None:
        answer = post_form(http, endpoints.token, fields)
        if answer.status_code == 400:
            code, _ = fault_of(answer)
            if code == "slow_down":
                raise TooFast
            if code == "authorization_pending":
                return None
        return read_tokens(answer)

    return Pairing(
        url=started.verification_uri,
        code=started.user_code,
        interval=max(0.0, started.interval),
        seconds=started.expires_in,
        ask=ask,
        direct_url=started.verification_uri_complete,
    )


# --- OpenAI's ------------------------------------------------------------------------------------------------------


class _UserCode(Struct, frozen=True):
    device_auth_id: str
    user_code: str
    interval: float | str = DEFAULT_INTERVAL


class _Code(Struct, frozen=True):
    authorization_code: str
    code_verifier: str


def _start_openai(issuer: Issuer, endpoints: Endpoints, http: "httpx2.Client") -> Pairing:
    base = f"{endpoints.accounts}/api/accounts/deviceauth"
    answer = post_json(http, f"{base}/usercode", {"client_id": issuer.client_id})
    check(answer)
    started = read(answer, _UserCode)
    fields = {"device_auth_id": started.device_auth_id, "user_code": started.user_code}

    def ask() -> Tokens | None:
        answer = post_json(http, f"{base}/token", fields)
        if answer.status_code in (403, 404):
            return None
        check(answer)
        code = read(answer, _Code)
        exchange = {
            "grant_type": "authorization_code",
            "code": code.authorization_code,
            "code_verifier": code.code_verifier,
            "client_id": issuer.client_id,
            "redirect_uri": f"{endpoints.accounts}/deviceauth/callback",
        }
        return read_tokens(post_form(http, endpoints.token, exchange))

    return Pairing(
        url=f"{endpoints.accounts}/codex/device",
        code=started.user_code,
        interval=_seconds(started.interval),
        seconds=OPENAI_SECONDS,
        ask=ask,
    )


def _seconds(interval: float | str) -> float:
    try:
        return max(0.0, float(interval))
    except ValueError:
        return DEFAULT_INTERVAL
