"""Reading a session through the protocol: its events page by page, its long texts whole, its id from what was typed.

What always holds: reading takes no lease, so it works while another process runs the session.
"""

import os
from collections.abc import AsyncIterator

from msgspec import Raw

from buddy.client.client import Client
from buddy.errors import ProtocolError, UserError
from buddy.protocol.envelopes import Event, parse_incoming
from buddy.protocol.events import EventBody
from buddy.protocol.requests import (
    ListSessions,
    ListSessionsReply,
    ReadBlob,
    ReadBlobReply,
    ReadEvents,
    ReadEventsReply,
)
from buddy.sessions.spill import whole_body

PAGE = 200
LISTED = 200
CHUNK = 256 * 1024
WHOLE_ID = len("sess_") + 26


async def read_lines(client: Client, session_id: str) -> AsyncIterator[Raw]:
    """Every event as the log has it: its JSON text, byte for byte."""
    after = 0
    while True:
        page = await client.request(ReadEvents(after, PAGE), ReadEventsReply, session_id)
        if not page.events:
            return
        for line in page.events:
            yield line
        after = event_in(page.events[-1]).seq


def event_in(line: Raw) -> Event:
    match parse_incoming(bytes(line)):
        case Event() as event:
            return event
        case _:
            raise ProtocolError("INTERNAL_ERROR", "the log has a line that is no event")


async def whole(client: Client, event: Event) -> EventBody | None:
    """The event's body, with the long texts that were kept beside it put back."""

    async def read(blob: str) -> bytes | None:
        return (await read_blob(client, event.session_id, blob)).encode()

    return await whole_body(event, read)


async def find_session(client: Client, wanted: str, directory: str) -> str:
    """The id that `last`, an id, or the beginning of one means; UserError where that is none, or several."""
    if wanted == "last":
        return await last_session(client, directory)
    if len(wanted) >= WHOLE_ID:
        return await _existing(client, wanted)
    known = await client.request(ListSessions(LISTED), ListSessionsReply)
    start = "sess_" + wanted.removeprefix("sess_").upper()
    found = [session.session_id for session in known.sessions if session.session_id.startswith(start)]
    if len(found) > 1 and start != "sess_":
        raise UserError(f"{len(found)} sessions begin with {wanted}", hint="give more of the id")
    if len(found) != 1 or start == "sess_":
        raise _unknown(wanted)
    return found[0]


async def last_session(client: Client, directory: str) -> str:
    root = os.path.realpath(directory)  # noqa: ASYNC240 - one look, nobody waits
    found = await client.request(ListSessions(1, root), ListSessionsReply)
    if not found.sessions:
        raise UserError(f"no session in {root}", hint="buddy session list --all shows those of other directories")
    return found.sessions[0].session_id


async def _existing(client: Client, session_id: str) -> str:
    try:
        await client.request(ReadEvents(0, 1), ReadEventsReply, session_id)
    except ProtocolError as error:
        if error.code != "SESSION_NOT_FOUND":
            raise
        raise _unknown(session_id) from error
    return session_id


async def read_blob(client: Client, session_id: str, blob: str) -> str:
    """A kept text in chunks. A character that a chunk cuts in two is asked for again, with the next one."""
    parts: list[str] = []
    offset = 0
    while True:
        reply = await client.request(ReadBlob(blob, offset, CHUNK), ReadBlobReply, session_id)
        is_last = offset + CHUNK >= reply.total
        text = reply.text if is_last else reply.text.rstrip("\ufffd") or reply.text
        parts.append(text)
        offset += len(text.encode())
        if is_last or not text:
            return "".join(parts)


def _unknown(wanted: str) -> UserError:
    return UserError(f"no session {wanted[:80]}", hint="buddy session list --all shows those there are")
