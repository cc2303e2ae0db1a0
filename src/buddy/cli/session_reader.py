"""Reading a session through the protocol: its events page by page, as the log has them.

Invariants: reading takes no lease, so it works while another process runs the session.
"""

import asyncio
from collections.abc import AsyncIterator

from msgspec import Raw

from buddy.client.client import Client
from buddy.errors import ProtocolError
from buddy.protocol.envelopes import Event, parse_incoming
from buddy.protocol.requests import ReadEvents, ReadEventsReply

PAGE = 200
ATTEMPTS = 100
WAIT_SECONDS = 0.1


async def read_lines(client: Client, session_id: str) -> AsyncIterator[Raw]:
    """Every event as the log has it: its JSON text, byte for byte."""
    after = 0
    while True:
        page = await _read_page(client, session_id, after)
        if not page.events:
            return
        for line in page.events:
            yield line
        after = event_in(page.events[-1]).seq


async def _read_page(client: Client, session_id: str, after: int) -> ReadEventsReply:
    """The next page; a long log is read as fast as the daemon accepts requests."""
    for _ in range(ATTEMPTS):
        try:
            return await client.request(ReadEvents(after, PAGE), ReadEventsReply, session_id)
        except ProtocolError as error:
            if error.code != "OVERLOADED":
                raise
        await asyncio.sleep(WAIT_SECONDS)
    return await client.request(ReadEvents(after, PAGE), ReadEventsReply, session_id)


def event_in(line: Raw) -> Event:
    match parse_incoming(bytes(line)):
        case Event() as event:
            return event
        case _:
            raise ProtocolError("INTERNAL_ERROR", "the log has a line that is not an event")
