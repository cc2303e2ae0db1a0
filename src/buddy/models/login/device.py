"""Login on another device: a code is shown here and entered there.

Invariants: the issuer is polled no more often than it allows, and not after the code has expired; two protocols are
supported, the standard (RFC 8628) and OpenAI's own.
"""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from buddy.errors import UserError
from buddy.models.login.issuer import SCOPE, Endpoints, Issuer
from buddy.models.login.oauth import LoginRefused, check, fault_of, post_form, post_json, read, read_tokens
from buddy.models.login.tokens import LoginTokens

if TYPE_CHECKING:
    import httpx2

OPENAI_SECONDS = 15 * 60
DEFAULT_INTERVAL = 5.0
SLOWER = 5.0

_GRANT = "urn:ietf:params:oauth:grant-type:device_code"


class Pairing(Struct, frozen=True):
    """What the person is shown (`url` and `code`), and how to poll for the result."""

    url: str
    code: str
    interval: float
    seconds: float
    poll: Callable[[], LoginTokens | None]
    direct_url: str = ""


class TooFast(Exception):
    """The issuer wants to be polled less often."""


def start_pairing(issuer: Issuer, endpoints: Endpoints, http: "httpx2.Client") -> Pairing:
    if endpoints.accounts:
        return _start_openai(issuer, endpoints, http)
    if endpoints.device:
        return _start_standard(issuer, endpoints, http)
    raise UserError(f"{issuer.url} has no device login", hint="use --browser")


def wait_for_tokens(
    pairing: Pairing, sleep: Callable[[float], None] = time.sleep, clock: Callable[[], float] = time.monotonic
) -> LoginTokens:
    """Poll until the person has decided; UserError if they refuse, or the code expires."""
    deadline, interval = clock() + pairing.seconds, pairing.interval
    while clock() + interval < deadline:
        sleep(interval)
        try:
            tokens = pairing.poll()
        except TooFast:
            interval += SLOWER
        except LoginRefused as error:
            raise _refusal(error) from error
        else:
            if tokens is not None:
                return tokens
    raise _expired_error()


def _expired_error() -> UserError:
    return UserError("the code has expired", hint="run buddy login again", exit_code=1)


def _refusal(error: LoginRefused) -> UserError:
    if error.code == "expired_token":
        return _expired_error()
    if error.code == "access_denied":
        return UserError("the login was denied", hint="if that was a mistake, run buddy login again", exit_code=1)
    return UserError(str(error), exit_code=1)


# --- the standard --------------------------------------------------------------------------------------------------


class _Started(Struct, frozen=True):
    device_code: str
    user_code: str
    verification_uri: str
    verification_uri_complete: str = ""
    expires_in: float = 900.0
    interval: float = DEFAULT_INTERVAL


def _start_standard(issuer: Issuer, endpoints: Endpoints, http: "httpx2.Client") -> Pairing:
    response = post_form(http, endpoints.device, {"client_id": issuer.client_id, "scope": SCOPE})
    check(response)
    started = read(response, _Started)
    fields = {"grant_type": _GRANT, "device_code": started.device_code, "client_id": issuer.client_id}

    def poll() -> LoginTokens | None:
        response = post_form(http, endpoints.token, fields)
        if response.status_code == 400:
            code, _ = fault_of(response)
            if code == "slow_down":
                raise TooFast
            if code == "authorization_pending":
                return None
        return read_tokens(response)

    return Pairing(
        url=started.verification_uri,
        code=started.user_code,
        interval=max(0.0, started.interval),
        seconds=started.expires_in,
        poll=poll,
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
    response = post_json(http, f"{base}/usercode", {"client_id": issuer.client_id})
    check(response)
    started = read(response, _UserCode)
    fields = {"device_auth_id": started.device_auth_id, "user_code": started.user_code}

    def poll() -> LoginTokens | None:
        response = post_json(http, f"{base}/token", fields)
        if response.status_code in (403, 404):
            return None
        check(response)
        code = read(response, _Code)
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
        poll=poll,
    )


def _seconds(interval: float | str) -> float:
    try:
        return max(0.0, float(interval))
    except ValueError:
        return DEFAULT_INTERVAL
