"""What an error response may say: nothing that a client sent is repeated unscrubbed.

Invariants: every error response is made here; a secret that a message shows only in part, because it was cut, is hidden
like a complete one.
"""

import re

import msgspec

from buddy.errors import REPLACED, REPLACED_HINT, ProtocolError, is_replaced
from buddy.log.database import DAMAGED_HINT, is_damage
from buddy.protocol.shapes import ErrorInfo
from buddy.scrub import Scrubber
from buddy.scrub.marks import MARK

_WORD = re.compile(r"\S+")
_AROUND = "'\"`,;:()[]{}…."
_SHORTEST = 4
"""Fewer characters of a secret than this give nothing away."""
_MAX_KIND = 100


def error_info(scrubber: Scrubber, error: ProtocolError, sent: bytes = b"") -> ErrorInfo:
    """The error as the peer may see it; `sent` is what the peer sent."""
    message = scrub_echo(scrubber, error.message or error.code, sent)
    detail = None if error.detail is None else scrub_echo(scrubber, error.detail, sent)
    return ErrorInfo(error.code, message, error.retryable, detail)


def explain_bug(error: Exception) -> ProtocolError:
    """The answer to an error that nobody expected; the daemon's log has all of it."""
    if is_replaced(error):
        return ProtocolError("INTERNAL_ERROR", REPLACED, retryable=True, detail=REPLACED_HINT)
    if is_damage(error):
        return ProtocolError("INTERNAL_ERROR", f"the log is damaged ({error})", detail=DAMAGED_HINT)
    return ProtocolError("INTERNAL_ERROR", "internal error; see the daemon's log", retryable=True)


def scrub_kind(scrubber: Scrubber, kind: str) -> str:
    """The type of a request that may be unknown, to be repeated in its response."""
    return scrubber.text(kind, random=False)[:_MAX_KIND]


def scrub_echo(scrubber: Scrubber, text: str, sent: bytes) -> str:
    scrubbed = scrubber.text(text, random=False)
    request = _readable(sent)
    words = {word for found in _WORD.findall(scrubbed) if len(word := found.strip(_AROUND)) >= _SHORTEST}
    # Some programs write host names in lower case, and they are quoted in messages.
    lower = request.lower()
    echoed = [word for word in words if word.lower() in lower]
    clean = scrubber.text(request, random=False) if echoed else request
    if clean == request:
        return scrubbed
    # A part of what was sent that is no longer there without the secrets is a part of one.
    lower = clean.lower()
    for word in sorted(echoed, key=len, reverse=True):
        if word.lower() not in lower:
            scrubbed = scrubbed.replace(word, MARK)
    return scrubbed


def _readable(sent: bytes) -> str:
    """The request's text without JSON's escapes, in which a word could hide."""
    try:
        return msgspec.json.encode(msgspec.json.decode(sent)).decode()
    except (msgspec.DecodeError, UnicodeDecodeError, UnicodeEncodeError, RecursionError):
        return sent.decode("utf-8", "replace")
