"""Checks of a batch that need no store.

Invariant: a batch that passes `check_shape` cannot leave a gap in a log, whichever store appends it.
"""

import re
from collections.abc import Sequence

from buddy.log.contract import Batch
from buddy.protocol.envelopes import Event

_BLOB = re.compile(rb'"([0-9a-f]{64})"')
_SHORTEST_WITH_BLOB = 66


def check_shape(batch: Batch) -> None:
    """Refuse events of another session, or whose seqs do not follow `expected_seq`: a bug in the caller."""
    seq = batch.expected_seq
    for event in batch.events:
        seq += 1
        if event.seq != seq or event.session_id != batch.session_id:
            raise ValueError(f"expected event {batch.session_id}:{seq}, got {event.session_id}:{event.seq}")


def names_blob(events: Sequence[Event]) -> bool:
    """Whether any of these events names a blob: one search over all is much cheaper than one per event."""
    return _BLOB.search(b"\n".join([event.payload for event in events])) is not None


def blobs_named(event: Event) -> set[str]:
    """The blob ids in an event's payload. May include other digests, which is harmless: they name no blob."""
    payload = bytes(event.payload)
    named = _BLOB.findall(payload) if len(payload) >= _SHORTEST_WITH_BLOB else ()
    return {found.decode() for found in named} if named else set()
