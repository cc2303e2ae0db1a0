"""Events whose long texts are stored as blobs, with these read back."""

from buddy.client.steps import Steps, read_blob
from buddy.protocol.blobs import restore_body
from buddy.protocol.envelopes import Event
from buddy.protocol.events import EventBody


def read_full_body(event: Event) -> Steps[EventBody | None]:
    """The event's body, complete; None for a type this version does not know."""
    body = event.body()
    contents: dict[str, bytes] = {}
    for blob in (body.blobs or {}).values() if body is not None else ():
        contents[blob] = (yield from read_blob(event.session_id, blob)).encode()
    return restore_body(event, contents)
