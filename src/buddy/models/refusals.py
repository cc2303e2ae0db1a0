"""What a server's refusal means: whether time may fix it, when, and what the person can do.

What always holds: a message is at most one line of 500 characters of the server's own words, after ours.
"""

import math
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from buddy.errors import ProviderError
from buddy.models.apis import other_apis

if TYPE_CHECKING:
    from buddy.models.chunks import Fault

_TELLING = 500
_PASSING = (
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
    "try again",
)


class Refused(ProviderError):
    """The server answered with a status that is not 200."""

    status = 0


def refused(status: int, headers: Mapping[str, str], body: bytes, api: str) -> Refused:
    """The error for an answer whose status is not 200."""
    told = _told(body)
    message = f"the model API answered {status}" + (f": {told}" if told else "")
    if status in {408, 429} or status >= 500:
        error = Refused(message, retryable=True, retry_after=retry_after(headers))
    else:
        error = Refused(message, retryable=False, hint=_hint(status, headers, api))
    error.status = status
    return error


def failed(fault: "Fault | str") -> ProviderError:
    """The error for a stream that began well and then says that it failed."""
    if isinstance(fault, str):
        from buddy.models.chunks import Fault

        fault = Fault(message=fault)
    told = fault.message or fault.detail or str(fault.code or fault.type or "no reason given")
    return ProviderError(f"the model API failed: {_line(told)}", retryable=_may_pass(fault))


def retry_after(headers: Mapping[str, str]) -> float | None:
    """How long the server asks to wait, in seconds: `retry-after-ms`, or `retry-after` in seconds or as a date."""
    milliseconds = _number(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    text = headers.get("retry-after", "")
    seconds = _number(text)
    if seconds is not None or not text:
        return seconds
    from email.utils import parsedate_to_datetime  # half of what the first request would have to load

    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None


def _hint(status: int, headers: Mapping[str, str], api: str) -> str:
    if status in {401, 403}:
        return "check the API key of this profile (api_key, api_key_env or api_key_file)"
    if status == 404:
        others = " or ".join(f'"{other}"' for other in other_apis(api))
        return f"check base_url and model, or try api = {others} in this profile"
    if 300 <= status < 400:
        return f"the server redirects to {headers.get('location', 'nowhere')}; set base_url to where the API is"
    return ""


def _told(body: bytes) -> str:
    from buddy.models.chunks import read_fault

    fault = read_fault(body)
    told = (fault.message or fault.detail or "") if fault else ""
    return _line(told or body[: 4 * _TELLING].decode("utf-8", "replace"))


def _line(text: str) -> str:
    return " ".join(text.split())[:_TELLING]


def _may_pass(fault: "Fault") -> bool:
    for code in (fault.code, fault.status):
        number = _number(str(code))
        if number is not None:
            return number in {408, 429} or number >= 500
    words = f"{fault.code} {fault.type} {fault.message}".lower()
    return any(word in words for word in _PASSING)


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None
