"""Typed events whose long texts are stored as blobs, with these read back."""

import msgspec

from buddy.client.steps import Steps, read_full
from buddy.protocol.envelopes import Event
from buddy.protocol.events import EVENTS, ApprovalRequired, EventBody, SessionSnapshot


def read_full_body(event: Event) -> Steps[EventBody | None]:
    """The event's body, complete; None for a type this version does not know."""
    body = event.body()
    if body is None or not body.blobs:
        return body
    payload = yield from read_full(event.session_id, event.to_json()["payload"])
    return msgspec.convert(payload, EVENTS[event.type])


def approval_in(body: EventBody | None) -> ApprovalRequired | None:
    """The approval that waits as of this event: it was asked for now, or before the gap that a snapshot stands for."""
    match body:
        case ApprovalRequired():
            return body
        case SessionSnapshot(pending_approval=pending) if pending is not None:
            return ApprovalRequired(**msgspec.structs.asdict(pending), blobs=body.blobs)
        case _:
            return None
