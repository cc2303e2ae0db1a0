"""Typed events whose long texts are stored as blobs, with these read back."""

import msgspec

from buddy.client.steps import Steps, read_full
from buddy.protocol.envelopes import Event
from buddy.protocol.events import EVENTS, EventBody


def read_full_body(event: Event) -> Steps[EventBody | None]:
    """The event's body, complete; None for a type this version does not know."""
    body = event.body()
    if body is None or not body.blobs:
        return body
    payload = yield from read_full(event.session_id, event.to_json()["payload"])
    return msgspec.convert(payload, EVENTS[event.type])
