"""The first message of a session, by which a person recognizes it."""

from buddy.client.client import Client
from buddy.protocol.envelopes import Event, parse_incoming
from buddy.protocol.events import UserMessage
from buddy.protocol.requests import ReadEvents, ReadEventsReply

# The first message is among the first events of every session.
EVENTS_READ = 6


async def first_prompt(client: Client, session_id: str) -> str:
    """The first message; empty if there is none."""
    page = await client.request(ReadEvents(0, EVENTS_READ), ReadEventsReply, session_id)
    for line in page.events:
        event = parse_incoming(bytes(line))
        body = event.body() if isinstance(event, Event) else None
        if isinstance(body, UserMessage):
            return body.text
    return ""
