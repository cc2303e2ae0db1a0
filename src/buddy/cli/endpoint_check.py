"""Whether a model's endpoint answers: one cheap request, a short timeout, and what the answer means."""

import re
from typing import Literal

import httpx2
import msgspec
from msgspec import Struct

from buddy.config.resolve import Resolved
from buddy.config.server_address import without_credentials
from buddy.models.apis import access_of, add_version
from buddy.models.catalog import without_date
from buddy.models.http.tls import tls_failure

SECONDS = 3.0

Finding = tuple[Literal["ok", "warn", "fail"], str, str]


class _Model(Struct):
    id: str = ""
    name: str = ""


class _Models(Struct):
    """Gemini's list has another name, and names with a prefix."""

    data: tuple[_Model, ...] = ()
    models: tuple[_Model, ...] = ()

    def names(self) -> list[str]:
        return [model.id for model in self.data] or [model.name.removeprefix("models/") for model in self.models]


def check_endpoint(resolved: Resolved) -> Finding:
    """Request the list of models; return the result in words, and what to do."""
    access = access_of(resolved.api)
    key = {access.key_header: f"{access.key_prefix}{resolved.api_key}"} if resolved.api_key else {}
    url = f"{add_version(resolved.base_url, resolved.api)}{access.models}"
    try:
        answer = httpx2.get(url, headers={**access.headers, **key}, timeout=SECONDS)
    except httpx2.TimeoutException:
        return "fail", f"{_place(resolved)} did not answer within {SECONDS:g} s", _CHECK_URL
    except httpx2.InvalidURL:
        return "fail", f"{_place(resolved)} is not a URL", _CHECK_URL
    except (httpx2.LocalProtocolError, UnicodeEncodeError):
        return "fail", "the key has characters that are not allowed in a header", "set BUDDY_API_KEY to the key alone"
    except httpx2.ConnectError as error:
        if failed := tls_failure(error):
            return "fail", f"can't connect to {_place(resolved)} ({failed.why})", failed.hint or _CHECK_URL
        return "fail", f"can't connect to {_place(resolved)} ({_reason(error)})", f"is the server running? {_CHECK_URL}"
    except httpx2.HTTPError as error:
        return "fail", f"{_place(resolved)} does not answer: {error}", _CHECK_URL
    return _explain(resolved, answer)


def _explain(resolved: Resolved, answer: httpx2.Response) -> Finding:
    place, code = _place(resolved), answer.status_code
    if code in (401, 403):
        word = "the key was refused" if resolved.api_key else "a key is needed"
        return "fail", f"{place}: {word} (HTTP {code})", "set BUDDY_API_KEY, or the profile's api_key_env"
    if code in (404, 405):
        return "warn", f"{place} answers, but lists no models (HTTP {code}), so the model's name is not checked", ""
    if code != 200:
        return "warn", f"{place} answers with HTTP {code}", "try again later, or check the address"
    try:
        names = msgspec.json.decode(answer.content, type=_Models).names()
    except msgspec.DecodeError:
        return "warn", f"{place} answers, but not like a model API", _CHECK_URL
    if not resolved.model:
        return _without_model(place, names)
    if names and resolved.model not in {*names, *map(without_date, names)}:
        hint = f"available: {', '.join(names[:5])}{' and more' if len(names) > 5 else ''}"
        return "warn", f"{place} answers, but does not list this model", hint
    return "ok", f"{place} answers", ""


def _without_model(place: str, names: list[str]) -> Finding:
    """A server that was named without a model: its only one is used."""
    if len(names) == 1:
        return "ok", f"{place} answers; BUDDY_MODEL is not set, so its only model is used: {names[0]}", ""
    shown = f"one of: {', '.join(names[:10])}" if names else "a model"
    return (
        "fail",
        f"{place} answers, but BUDDY_MODEL is not set and it offers {len(names)} models",
        f"set it to {shown}",
    )


def _reason(error: Exception) -> str:
    """The words of an error of the system, without its number."""
    return re.sub(r"^\[Errno -?\d+\] ", "", str(error)).lower() or "no connection"


def _place(resolved: Resolved) -> str:
    return without_credentials(resolved.base_url) or "the address"


_CHECK_URL = "check BUDDY_BASE_URL or api_base_url in the profile, and the network"
