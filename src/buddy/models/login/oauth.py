"""Requests to an issuer of tokens, and the meaning of its responses.

Invariants: no wait is longer than `SECONDS`, redirects are not followed, and no message repeats a token, a code or a
body; an error of the issuer is reported in its own words.
"""

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar

import msgspec
from msgspec import Struct

from buddy.errors import ProviderError
from buddy.models.login.tokens import LoginTokens

if TYPE_CHECKING:
    import httpx2

AnyStruct = TypeVar("AnyStruct", bound=Struct)

SECONDS = 10.0
DEFAULT_LIFETIME = 3600
MIN_LIFETIME = 60


class LoginRefused(ProviderError):
    """The issuer refused; `code` is its error code, such as `invalid_grant`."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message, retryable=False)
        self.code = code


class Granted(Struct, frozen=True):
    """The response of a token endpoint."""

    access_token: str
    refresh_token: str = ""
    expires_in: float | None = None


class _Fault(Struct, frozen=True):
    # Some servers send an object where the standard has a string.
    error: str | dict[str, object] = ""
    error_description: str = ""


def open_client() -> "httpx2.Client":
    import httpx2

    return httpx2.Client(timeout=SECONDS, follow_redirects=False)


def get(http: "httpx2.Client", url: str) -> "httpx2.Response":
    return _request(http, "GET", url)


def post_form(http: "httpx2.Client", url: str, fields: Mapping[str, str]) -> "httpx2.Response":
    return _request(http, "POST", url, form=fields)


def post_json(http: "httpx2.Client", url: str, fields: Mapping[str, str]) -> "httpx2.Response":
    return _request(http, "POST", url, json=fields)


def read_tokens(response: "httpx2.Response", *, refresh_token: str = "", now: float | None = None) -> LoginTokens:
    """The tokens in a response; without a new refresh token the old one stays valid."""
    check(response)
    granted = read(response, Granted)
    lifetime = max(MIN_LIFETIME, DEFAULT_LIFETIME if granted.expires_in is None else int(granted.expires_in))
    expires = int(time.time() if now is None else now) + lifetime
    return LoginTokens(granted.access_token, granted.refresh_token or refresh_token, expires)


def check(response: "httpx2.Response") -> None:
    """Raise the error for a status other than 200."""
    if response.status_code == 200:
        return
    if response.status_code == 429 or response.status_code >= 500:
        raise ProviderError(f"the login server answered {response.status_code}", retryable=True)
    code, message = fault_of(response)
    raise LoginRefused(code, f"the login server answered {response.status_code}" + (f": {message}" if message else ""))


def read(response: "httpx2.Response", shape: type[AnyStruct]) -> AnyStruct:
    try:
        return msgspec.json.decode(response.content, type=shape)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        # The cause is not part of the message: the body may contain a token.
        wanted = ", ".join(field.name for field in msgspec.structs.fields(shape) if field.required)
        raise LoginRefused("", f"the login server's response has no {wanted}") from error


def fault_of(response: "httpx2.Response") -> tuple[str, str]:
    """The issuer's error code, and its message."""
    try:
        fault = msgspec.json.decode(response.content, type=_Fault)
    except msgspec.DecodeError:
        return "", ""
    code = fault.error if isinstance(fault.error, str) else str(fault.error.get("code") or "")
    message = f"{code} ({fault.error_description})" if fault.error_description else code
    return code, " ".join(message.split())[:200]


def _request(
    http: "httpx2.Client",
    method: str,
    url: str,
    *,
    form: Mapping[str, str] | None = None,
    json: Mapping[str, str] | None = None,
) -> "httpx2.Response":
    import httpx2

    try:
        return http.request(method, url, data=form, json=json, headers={"accept": "application/json"})
    except httpx2.TimeoutException as error:
        raise ProviderError(f"the login server did not answer within {SECONDS:g} s", retryable=True) from error
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise ProviderError(f"can't connect to the login server at {url}: {error}", retryable=True) from error
