"""What OpenCode's server says, as far as we listen: events of its stream, of the older dialect and of the newer one.

What always holds: an event names the session it belongs to, or is nobody's; a value of another type than expected
counts as not said.
"""

from typing import Any

from msgspec import Struct

from buddy.backends.external import loose
from buddy.errors import ProviderError

Json = dict[str, Any]


class Event(Struct, frozen=True):
    kind: str
    session_id: str
    body: Json


class Missing(ProviderError):
    """The server knows no such thing, or no such route."""

    def __init__(self, path: str) -> None:
        super().__init__(f"OpenCode's server knows no {path}", retryable=False)


def read_event(line: str) -> Event | None:
    """A line of the stream; None where it carries no event. ValueError for what is not JSON."""
    if not line.startswith("data:"):
        return None
    said = loose.mapping(loose.decoded(line[5:].encode()))
    payload = loose.mapping(said.get("payload")) or said
    kind, body = loose.text(payload.get("type")), loose.mapping(payload.get("properties"))
    return Event(kind, _session_of(kind, body), body) if kind else None


def read_list(answer: bytes) -> list[Json]:
    return loose.mappings(_decoded(answer))


def read_object(answer: bytes) -> Json:
    return loose.mapping(_decoded(answer))


def complaint_of(error: object) -> str:
    """What an error says, without the stack that may follow it."""
    said = loose.mapping(error)
    message = loose.text(loose.mapping(said.get("data")).get("message")) or loose.text(said.get("message"))
    return (message or loose.text(said.get("name")) or "it failed without saying why").partition("\n    at ")[0].strip()


def is_abort(error: object) -> bool:
    return loose.mapping(error).get("name") == "MessageAbortedError"


def _session_of(kind: str, body: Json) -> str:
    info = loose.mapping(body.get("info"))
    if kind.startswith("session.") and info:
        return loose.text(info.get("id"))
    part = loose.mapping(body.get("part"))
    found = body.get("sessionID") or info.get("sessionID") or part.get("sessionID")
    return loose.text(found)


def _decoded(answer: bytes) -> object:
    try:
        return loose.decoded(answer)
    except ValueError:
        return None
