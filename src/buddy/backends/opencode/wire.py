"""Parses what OpenCode's server sends: responses, and events in the older and the newer format.

Invariants: an event without a session belongs to no conversation; a value of an unexpected type counts as missing.
"""

from typing import Any

from msgspec import Struct

from buddy.backends.external import lenient
from buddy.errors import ProviderError

Json = dict[str, Any]


class StreamEvent(Struct, frozen=True):
    kind: str
    session_id: str
    body: Json


class NotFound(ProviderError):
    """The server has no such object or no such route."""

    def __init__(self, path: str) -> None:
        super().__init__(f"OpenCode's server has no {path}", retryable=False)


def read_event(line: str) -> StreamEvent | None:
    """Parse a line of the stream; None if it has no event, ValueError if it is not JSON."""
    if not line.startswith("data:"):
        return None
    data = lenient.mapping(lenient.decode(line[5:].encode()))
    payload = lenient.mapping(data.get("payload")) or data
    kind, body = lenient.text(payload.get("type")), lenient.mapping(payload.get("properties"))
    return StreamEvent(kind, _session_of(kind, body), body) if kind else None


def read_list(answer: bytes) -> list[Json]:
    return lenient.mappings(_decode(answer))


def read_object(answer: bytes) -> Json:
    return lenient.mapping(_decode(answer))


def error_text(error: object) -> str:
    """The message of an error, without the stack trace that may follow it."""
    fields = lenient.mapping(error)
    message = lenient.text(lenient.mapping(fields.get("data")).get("message")) or lenient.text(fields.get("message"))
    text = message or lenient.text(fields.get("name")) or "it failed without giving a reason"
    return text.partition("\n    at ")[0].strip()


def is_abort(error: object) -> bool:
    return lenient.mapping(error).get("name") == "MessageAbortedError"


def _session_of(kind: str, body: Json) -> str:
    info = lenient.mapping(body.get("info"))
    if kind.startswith("session.") and info:
        return lenient.text(info.get("id"))
    part = lenient.mapping(body.get("part"))
    found = body.get("sessionID") or info.get("sessionID") or part.get("sessionID")
    return lenient.text(found)


def _decode(answer: bytes) -> object:
    try:
        return lenient.decode(answer)
    except ValueError:
        return None
