"""What OpenCode's server says, as far as we listen: events of its stream, of the older dialect and of the newer one.

Invariants: an event names the session it belongs to, or is nobody's; a value of another type than expected
counts as not said.
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
    """The server knows no such thing, or no such route."""

    def __init__(self, path: str) -> None:
        super().__init__(f"OpenCode's server knows no {path}", retryable=False)


def read_event(line: str) -> StreamEvent | None:
    """A line of the stream; None where it carries no event. ValueError for what is not JSON."""
    if not line.startswith("data:"):
        return None
    said = lenient.mapping(lenient.decode(line[5:].encode()))
    payload = lenient.mapping(said.get("payload")) or said
    kind, body = lenient.text(payload.get("type")), lenient.mapping(payload.get("properties"))
    return StreamEvent(kind, _session_of(kind, body), body) if kind else None


def read_list(answer: bytes) -> list[Json]:
    return lenient.mappings(_decoded(answer))


def read_object(answer: bytes) -> Json:
    return lenient.mapping(_decoded(answer))


def error_text(error: object) -> str:
    """What an error says, without the stack that may follow it."""
    said = lenient.mapping(error)
    message = lenient.text(lenient.mapping(said.get("data")).get("message")) or lenient.text(said.get("message"))
    return (
        (message or lenient.text(said.get("name")) or "it failed without saying why").partition("\n    at ")[0].strip()
    )


def is_abort(error: object) -> bool:
    return lenient.mapping(error).get("name") == "MessageAbortedError"


def _session_of(kind: str, body: Json) -> str:
    info = lenient.mapping(body.get("info"))
    if kind.startswith("session.") and info:
        return lenient.text(info.get("id"))
    part = lenient.mapping(body.get("part"))
    found = body.get("sessionID") or info.get("sessionID") or part.get("sessionID")
    return lenient.text(found)


def _decoded(answer: bytes) -> object:
    try:
        return lenient.decode(answer)
    except ValueError:
        return None
