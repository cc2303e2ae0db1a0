"""What a server's error means: whether a retry may help, when, and what the person can do.

Invariants: a message contains at most one line of 500 characters of the server's own words, after ours.
"""

import math
import re
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from buddy.errors import ProviderError
from buddy.models.apis import other_apis

if TYPE_CHECKING:
    from buddy.models.chunks import Fault

_MAX_MESSAGE = 500
_TRANSIENT = (
    "rate_limit",
    "rate limit",
    "ratelimit",
    "too many requests",
    "overload",
    "capacity",
    "unavailable",
    "timeout",
    "timed out",
    "server_error",
    "server error",
    "internal_error",
    "api_error",
    "try again",
    "resource_exhausted",
    "deadline_exceeded",
)


class ApiError(ProviderError):
    """The server responded with a status other than 200."""

    status = 0


def response_error(status: int, headers: Mapping[str, str], body: bytes, api: str) -> ApiError:
    """The error for a response whose status is not 200."""
    said = _message(body)
    message = f"the model API answered {status}" + (f": {said}" if said else "")
    if status in {408, 429} or status >= 500:
        error = ApiError(message, retryable=True, retry_after=retry_after(headers) or _delay_in(body))
    else:
        error = ApiError(message, retryable=False, hint=_hint(status, headers, api))
    error.status = status
    return error


def stream_error(fault: "Fault | str") -> ProviderError:
    """The error for a stream that started well and then reports a failure."""
    if isinstance(fault, str):
        from buddy.models.chunks import Fault

        fault = Fault(message=fault)
    text = fault.message or fault.detail or str(fault.code or fault.type or "no reason given")
    return ProviderError(f"the model API failed: {_line(text)}", retryable=_is_transient(fault))


def retry_after(headers: Mapping[str, str]) -> float | None:
    """How long the server asks to wait, in seconds: `retry-after-ms`, or `retry-after` in seconds or as a date."""
    milliseconds = _number(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    text = headers.get("retry-after", "")
    seconds = _number(text)
    if seconds is not None or not text:
        return seconds
    from email.utils import parsedate_to_datetime  # heavy, and rarely needed

    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None


def _delay_in(body: bytes) -> float | None:
    """How long Google asks to wait, which it says in the body."""
    found = re.search(rb'"retryDelay"\s*:\s*"(\d{1,6}(?:\.\d{1,9})?)s"', body)
    return float(found[1]) if found else None


def _hint(status: int, headers: Mapping[str, str], api: str) -> str:
    if status in {401, 403}:
        return "check the API key: BUDDY_API_KEY, or api_key, api_key_env or api_key_file of this profile"
    if status == 404:
        others = " or ".join(f'"{other}"' for other in other_apis(api))
        return f"check base_url and model (BUDDY_BASE_URL, BUDDY_MODEL), or try api = {others} in this profile"
    if 300 <= status < 400:
        return f"the server redirects to {headers.get('location', 'nowhere')}; set base_url to the URL of the API"
    return ""


def _message(body: bytes) -> str:
    from buddy.models.chunks import read_fault

    fault = read_fault(body)
    text = (fault.message or fault.detail or "") if fault else ""
    return _line(text or body[: 4 * _MAX_MESSAGE].decode("utf-8", "replace"))


def _line(text: str) -> str:
    return " ".join(text.split())[:_MAX_MESSAGE]


def _is_transient(fault: "Fault") -> bool:
    for code in (fault.code, fault.status):
        number = _number(str(code))
        if number is not None:
            return number in {408, 429} or number >= 500
    words = f"{fault.code} {fault.type} {fault.status} {fault.message}".lower()
    return any(word in words for word in _TRANSIENT)


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None
