"""Restores the long texts of an event, which are stored as blobs."""

from collections.abc import Mapping
from typing import Any

import msgspec

from buddy.protocol import pointer
from buddy.protocol.envelopes import Event
from buddy.protocol.events import EVENTS, EventBody


def restore_body(event: Event, contents: Mapping[str, bytes]) -> EventBody | None:
    """The event's body with the given blobs restored; None for a type this version does not know."""
    body = event.body()
    if body is None or not body.blobs:
        return body
    payload: dict[str, Any] = msgspec.json.decode(event.payload)
    pointer.restore(payload, contents)
    return msgspec.convert(payload, EVENTS[event.type])
