"""A recording that was changed is found out, and one that lacks what a replay needs is refused."""

from pathlib import Path

import msgspec
import pytest
from msgspec import Raw
from msgspec.structs import replace

from buddy.errors import UserError
from buddy.protocol.envelopes import Event
from buddy.protocol.requests import PruneSession, PruneSessionReply
from buddy.replay.verify import Recording
from tests.harness.models import StepModel, answer, asks_for, shell
from tests.harness.runtime import checked_host
from tests.replay.recordings import RecordedSession, recording_session, verified


def without(recording: Recording, kind: str, field: str) -> Recording:
    """The recording with one field left out of the events of a kind."""
    events = [
        replace(event, payload=Raw(msgspec.json.encode(_left(event, field)))) if event.type == kind else event
        for event in recording.events
    ]
    return Recording(tuple(events), recording.blobs)


def _left(event: Event, field: str) -> dict[str, object]:
    tree = msgspec.json.decode(event.payload, type=dict[str, object])
    tree.pop(field)
    return tree


async def test_a_recording_without_the_facts_that_a_replay_needs_is_refused(tmp_path: Path) -> None:
    recording = without(await made(tmp_path), "run_started", "recording")
    with pytest.raises(UserError, match="earlier version"):
        await verified(recording)


async def made(tmp_path: Path) -> Recording:
    async with recording_session(tmp_path, asks_for(shell("echo a")), answer("done")) as recording:
        await recording.say("go")
        return await recording.recording()


def changed(recording: Recording, kind: str, **fields: object) -> Recording:
    """The recording with the first event of a kind altered."""
    events = list(recording.events)
    at = next(at for at, event in enumerate(events) if event.type == kind)
    tree = {**msgspec.json.decode(events[at].payload), **fields}
    events[at] = replace(events[at], payload=Raw(msgspec.json.encode(tree)))
    return Recording(tuple(events), recording.blobs)


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("run_complete", {"outcome": "failed"}),
        ("status", {"phase": "Dreaming"}),
        ("progress", {"turn": 7}),
        ("tool_claimed", {"target": "elsewhere"}),
        ("tool_claimed", {"digest": "0" * 64}),
        ("approval_received", {"by": "nobody-we-know"}),
        ("assistant_done", {"messageId": "asst_other"}),
    ],
)
async def test_a_change_is_found_where_it_is(tmp_path: Path, kind: str, fields: dict[str, object]) -> None:
    recording = changed(await made(tmp_path), kind, **fields)
    verdict = await verified(recording)
    assert verdict.difference is not None
    seq = next(event.seq for event in recording.events if event.type == kind)
    assert verdict.difference.message.startswith(f"seq {seq}:")
    assert verdict.compared == seq - 1


async def test_a_missing_event_is_found(tmp_path: Path) -> None:
    recording = await made(tmp_path)
    at = next(at for at, event in enumerate(recording.events) if event.type == "status")
    fewer = [*recording.events[:at], *(replace(event, seq=event.seq - 1) for event in recording.events[at + 1 :])]
    verdict = await verified(Recording(tuple(fewer), recording.blobs))
    assert verdict.difference is not None
    assert verdict.compared == at


async def test_an_event_too_many_is_found(tmp_path: Path) -> None:
    recording = await made(tmp_path)
    last = recording.events[-1]
    more = Event(last.session_id, last.seq + 1, last.ts, "status", Raw(b'{"source":"x","phase":"y"}'))
    verdict = await verified(Recording((*recording.events, more), recording.blobs))
    assert verdict.difference is not None
    assert verdict.difference.message == f"seq {more.seq}: nothing more happens"
    assert verdict.difference.replayed == "nothing"


async def test_a_pruned_session_is_refused(tmp_path: Path) -> None:
    async with checked_host(tmp_path, StepModel(answer("one")), pruned=True) as host, host.client() as client:
        await client.start()
        recording = RecordedSession(host, client)
        await recording.say("first")
        await client.api.request(PruneSession(3), PruneSessionReply, client.session_id)
        with pytest.raises(UserError, match="pruned"):
            await verified(await recording.recording())
