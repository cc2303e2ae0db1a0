"""Operations of several requests, without I/O: a generator yields a request and receives the reply as plain JSON.

Both drivers run them (`Client.perform`, `BlockingClient.perform`), so each is written once.
"""

import os
from collections.abc import Generator
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from buddy.client.core import Fields
from buddy.errors import ProtocolError, UserError
from buddy.protocol import pointer

if TYPE_CHECKING:
    from buddy.protocol.json_events import Payload

    AnyPayload = TypeVar("AnyPayload", bound=Payload)

CHUNK = 256 * 1024
MAX_LISTED = 200
MOST_PAGES = 10
SHORTEST_END = 4
FULL_ID = len("sess_") + 26

Result = TypeVar("Result")


class Ask(NamedTuple):
    """A request to make."""

    kind: str
    payload: Fields
    session_id: str | None = None


Steps = Generator[Ask, Fields, Result]


def find_session(wanted: str, directory: str) -> Steps[str]:
    """The session that `last`, a number of the list, an id, its beginning or its end refers to.

    An imported session is also known by the id that it had before. UserError if none or several match.
    """
    if wanted == "last":
        return (yield from last_session(directory))
    number = _number(wanted)
    if number is not None:
        return (yield from _numbered_session(number, directory))
    if len(wanted) >= FULL_ID:
        try:
            yield Ask("read_events", {"after": 0, "limit": 1}, wanted)
        except ProtocolError as error:
            if error.code != "SESSION_NOT_FOUND":
                raise
            return (yield from _imported_session(wanted))
        return wanted
    start = "sess_" + wanted.removeprefix("sess_").upper()
    ids: list[str] = [session["sessionId"] for session in (yield from all_sessions())]
    found = [session_id for session_id in ids if session_id.startswith(start)]
    if not found and len(wanted) >= SHORTEST_END:
        found = [session_id for session_id in ids if session_id.endswith(wanted.upper())]
        if len(found) > 1:
            raise UserError(f"{len(found)} sessions end with {wanted}", hint="type more of the id")
    if len(found) > 1 and start != "sess_":
        raise UserError(f"{len(found)} sessions start with {wanted}", hint="type more of the id")
    if len(found) != 1 or start == "sess_":
        return (yield from _imported_session(wanted))
    return found[0]


def _imported_session(wanted: str) -> Steps[str]:
    """The session that was imported under this id: only its first event says so."""
    cursor: str | None = None
    may_be_one = len(wanted) >= SHORTEST_END and not wanted.startswith("sess_")
    for _ in range(MOST_PAGES if may_be_one else 0):
        page: Fields = {"limit": MAX_LISTED, "archived": "all"}
        listed = yield Ask("list_sessions", page | ({"cursor": cursor} if cursor else {}))
        for session in listed["sessions"]:
            first = (yield Ask("read_events", {"after": 0, "limit": 1}, session["sessionId"]))["events"]
            metadata: Fields = (first[0]["payload"].get("metadata") if first else None) or {}
            if metadata.get("importedId") == wanted:
                return session["sessionId"]
        cursor = listed.get("nextCursor")
        if cursor is None:
            break
    raise unknown_session(wanted)


def all_sessions() -> Steps[list[Fields]]:
    """The rows of the sessions used last, archived ones included."""
    listed = yield Ask("list_sessions", {"limit": MAX_LISTED, "archived": "all"})
    return listed["sessions"]


def _number(wanted: str) -> int | None:
    """A number of the list, such as `3` or `#3`; an id has more digits, and starts with a 0 for centuries."""
    digits = wanted.removeprefix("#")
    if not (digits.isascii() and digits.isdigit()) or digits.startswith("0") or len(digits) > len(str(MAX_LISTED)):
        return None
    return int(digits)


def _numbered_session(number: int, directory: str) -> Steps[str]:
    """The session with this number in `buddy session list` of a directory; the most recently used one is 1."""
    root = os.path.realpath(directory)
    listed = yield Ask("list_sessions", {"limit": MAX_LISTED, "rootPath": root})
    if number > len(listed["sessions"]):
        raise UserError(f"no session #{number} in {root}", hint="run 'buddy session list' to see their numbers")
    return listed["sessions"][number - 1]["sessionId"]


def last_session(directory: str) -> Steps[str]:
    """The most recently used session of a directory that is not a sub-agent's."""
    root = os.path.realpath(directory)
    listed = yield Ask("list_sessions", {"limit": MAX_LISTED, "rootPath": root})
    found: list[Fields] = [row for row in listed["sessions"] if not row.get("agent")]
    if not found:
        raise UserError(
            f"no session in {root}", hint="buddy session list --all shows the sessions of other directories"
        )
    return found[0]["sessionId"]


def read_blob(session_id: str, blob: str) -> Steps[str]:
    """A stored text, chunk by chunk; a character that a chunk cuts in two is read again with the next one."""
    parts: list[str] = []
    offset = 0
    while True:
        reply = yield Ask("read_blob", {"blob": blob, "offset": offset, "limit": CHUNK}, session_id)
        is_last = offset + CHUNK >= reply["total"]
        text: str = reply["text"] if is_last else reply["text"].rstrip("\ufffd") or reply["text"]
        parts.append(text)
        offset += len(text.encode())
        if is_last or not text:
            return "".join(parts)


def read_full(session_id: str, payload: "AnyPayload") -> "Steps[AnyPayload]":
    """An event's payload with the long texts, which are stored as blobs, read back into it."""
    contents: dict[str, bytes] = {}
    for blob in (payload.get("blobs") or {}).values():
        contents[blob] = (yield from read_blob(session_id, blob)).encode()
    pointer.restore(payload, contents)
    return payload


def unknown_session(wanted: str) -> UserError:
    return UserError(f"no session {wanted[:80]}", hint="run 'buddy session list --all' to see all sessions")
