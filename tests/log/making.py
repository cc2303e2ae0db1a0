"""Sessions, events and batches for the tests of the log."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from buddy import errors
from buddy.log.contract import Batch, Lease, Log, SessionRecord
from buddy.protocol.envelopes import Event, event_of
from buddy.protocol.events import AssistantToken
from buddy.protocol.shapes import Repo

AnyStruct = TypeVar("AnyStruct", bound=msgspec.Struct)

SESSION = "sess_1"
OTHER = "sess_2"


class SetClock:
    """Unix milliseconds that only a test moves."""

    def __init__(self) -> None:
        self.now = 1_700_000_000_000

    def __call__(self) -> int:
        return self.now


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


async def read_all(log: Log, session_id: str = SESSION) -> list[Event]:
    found: list[Event] = []
    while page := await log.read(session_id, found[-1].seq if found else 0):
        found += page
    return found


def seqs(events: Sequence[Event]) -> list[int]:
    return [event.seq for event in events]


def child_environment(fault: str = "") -> dict[str, str]:
    """For programs that are started by a test: they find what it finds, and have no fault armed but the one given."""
    places = (Path(__file__).parent.parent, Path(errors.__file__).parent.parent)
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, places)), "BUDDY_FAULT": fault}
