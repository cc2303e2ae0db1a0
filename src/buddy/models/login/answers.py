"""Questions to an issuer, and what its answers mean.

What always holds: no wait is longer than `SECONDS`, a redirect is not followed, and no message repeats a token, a code
or a body; the issuer's own words are told where it gives them as an error.
"""

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar

import msgspec
from msgspec import Struct

from buddy.errors import ProviderError
from buddy.models.login.tokens import Tokens

if TYPE_CHECKING:
    import httpx2

AnyStruct = TypeVar("AnyStruct", bound=Struct)

SECONDS = 10.0
DEFAULT_LIFETIME = 3600
MIN_LIFETIME = 60


class Refused(ProviderError):
    """The issuer said no; `code` is its word for why, such as `invalid_grant`."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message, retryable=False)
        self.code = code


class Granted(Struct, frozen=True):
    """The answer of a token endpoint."""

    access_token: str
    refresh_token: str = ""
    expires_in: float | None = None


class _Fault(Struct, frozen=True):
    # Some servers put an object where the standard has a word.
    error: str | dict[str, object] = ""
    error_description: str = ""


def open_client() -> "httpx2.Client":
    import httpx2

    return httpx2.Client(timeout=SECONDS, follow_redirects=False)


def get(http: "httpx2.Client", url: str) -> "httpx2.Response":
    return _ask(http, "GET", url)


def post_form(http: "httpx2.Client", url: str, fields: Mapping[str, str]) -> "httpx2.Response":
    return _ask(http, "POST", url, form=fields)


def post_json(http: "httpx2.Client", url: str, fields: Mapping[str, str]) -> "httpx2.Response":
    return _ask(http, "POST", url, json=fields)


def read_tokens(answer: "httpx2.Response", *, refresh_token: str = "", now: float | None = None) -> Tokens:
    """The tokens in an answer; an issuer that sends no new refresh token lets the old one live on."""
    check(answer)
    granted = read(answer, Granted)
    lifetime = max(MIN_LIFETIME, DEFAULT_LIFETIME if granted.expires_in is None else int(granted.expires_in))
    expires = int(time.time() if now is None else now) + lifetime
    return Tokens(granted.access_token, granted.refresh_token or refresh_token, expires)


def check(answer: "httpx2.Response") -> None:
    """Raise what a status other than 200 means."""
    if answer.status_code == 200:
        return
    if answer.status_code == 429 or answer.status_code >= 500:
        raise ProviderError(f"the login server answered {answer.status_code}", retryable=True)
    code, told = fault_of(answer)
    raise Refused(code, f"the login server answered {answer.status_code}" + (f": {told}" if told else ""))


def read(answer: "httpx2.Response", shape: type[AnyStruct]) -> AnyStruct:
    try:
        return msgspec.json.decode(answer.content, type=shape)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        # What was wrong is not told: the body may hold a token.
        wanted = ", ".join(field.name for field in msgspec.structs.fields(shape) if field.required)
        raise Refused("", f"the login server's answer has no {wanted}") from error


def fault_of(answer: "httpx2.Response") -> tuple[str, str]:
    """The issuer's word for what is wrong, and how it tells it."""
    try:
        fault = msgspec.json.decode(answer.content, type=_Fault)
    except msgspec.DecodeError:
        return "", ""
    code = fault.error if isinstance(fault.error, str) else str(fault.error.get("code") or "")
    told = f"{code} ({fault.error_description})" if fault.error_description else code
    return code, " ".join(told.split())[:200]


def _ask(
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
        raise ProviderError(f"no connection to the login server: {error}", retryable=True) from error
