"""Checks of a batch that need no store.

Invariant: a batch that passes `check_shape` cannot leave a gap in a log, whichever store appends it.
"""

import re
from collections.abc import Sequence
from typing import Any, cast

import msgspec

from buddy.log.contract import Batch
from buddy.protocol.envelopes import Event

_BLOB = re.compile(rb'"[0-9a-f]{64}"')
_ID = re.compile(r"[0-9a-f]{64}")
_SHORTEST_WITH_BLOB = 66
_FIELDS = (b'"blob', b'"output"')


def check_shape(batch: Batch) -> None:
    """Refuse events of another session, or whose seqs do not follow `expected_seq`: a bug in the caller."""
    seq = batch.expected_seq
    for event in batch.events:
        seq += 1
        if event.seq != seq or event.session_id != batch.session_id:
            raise ValueError(f"expected event {batch.session_id}:{seq}, got {event.session_id}:{event.seq}")


def names_blob(events: Sequence[Event]) -> bool:
    """Whether any of these events may name a blob: one search over all is much cheaper than one per event."""
    payloads = b"\n".join([event.payload for event in events])
    return any(field in payloads for field in _FIELDS)


def blobs_named(event: Event) -> set[str]:
    """The blobs that Buddy stored for this event: those of its long texts, of its images and of a complete output.

    A digest anywhere else is somebody's words: it must neither give access to a blob nor keep it.
    """
    payload = bytes(event.payload)
    if len(payload) < _SHORTEST_WITH_BLOB or _BLOB.search(payload) is None:
        return set()
    body: dict[str, Any] = msgspec.json.decode(payload)
    named = [*_values(body.get("blobs")), *map(_blob_of, _values(body.get("attachments")))]
    if event.type == "tool_result":
        named.append(body.get("output"))
    return {one for one in named if isinstance(one, str) and _ID.fullmatch(one)}


def _values(found: Any) -> list[Any]:
    """The values of a list or an object; nothing if it is neither."""
    if isinstance(found, dict):
        return list(cast("dict[str, Any]", found).values())
    return cast("list[Any]", found) if isinstance(found, list) else []


def _blob_of(attachment: Any) -> Any:
    return cast("dict[str, Any]", attachment).get("blob") if isinstance(attachment, dict) else None
