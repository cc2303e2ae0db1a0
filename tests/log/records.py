"""Sessions, events and batches for the tests of the log."""

from collections.abc import Sequence
from typing import TypeVar

import msgspec

from buddy.log.contract import ApprovalRecord, Batch, Lease, Log, SessionRecord
from buddy.protocol.envelopes import Event, event_of
from buddy.protocol.events import AssistantToken
from buddy.protocol.shapes import Repo

AnyStruct = TypeVar("AnyStruct", bound=msgspec.Struct)

SESSION = "sess_1"
OTHER = "sess_2"


def record(session_id: str = SESSION, *, root: str = "/project", created_at: int = 1) -> SessionRecord:
    return SessionRecord(
        session_id=session_id,
        repo=Repo(root_path=root, current_branch="main"),
        mode="interactive",
        state="idle",
        created_at=created_at,
        updated_at=created_at,
        first_seq=1,
        last_seq=0,
    )


def tokens(first: int, count: int = 1, *, session_id: str = SESSION, text: str = "héllo") -> list[Event]:
    return [
        event_of(AssistantToken(text=f"{text} {seq}"), session_id=session_id, seq=seq, ts=seq * 10, run_id="run_1")
        for seq in range(first, first + count)
    ]


def batch(lease: Lease, expected_seq: int, count: int = 1, *, durable: bool = False, key: str | None = None) -> Batch:
    events = tokens(expected_seq + 1, count, session_id=lease.session_id)
    return Batch(lease.session_id, lease.epoch, expected_seq, events, durable=durable, key=key)


def changed(struct: AnyStruct, **changes: object) -> AnyStruct:
    return msgspec.structs.replace(struct, **changes)


def seqs(events: Sequence[Event]) -> list[int]:
    return [event.seq for event in events]


async def started(log: Log, session_id: str = SESSION) -> Lease:
    return await log.create(record(session_id), "owner")


def pending(approval_id: str = "appr_1") -> ApprovalRecord:
    return ApprovalRecord(approval_id, "run_1", "call_1", "digest", 99)
