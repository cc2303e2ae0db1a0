"""A session that is opened again reads a part of its log, and stands where all of it would have brought it."""

import asyncio
from collections.abc import Iterable
from itertools import chain
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from buddy.backends.external import history
from buddy.backends.external.history import History
from buddy.backends.native.loop import Native
from buddy.backends.native.pinned import Pins
from buddy.backends.native.transcript import Transcript
from buddy.log.contract import Batch
from buddy.log.memory import MemoryLog
from buddy.log.owners import this_owner
from buddy.protocol.envelopes import Event, event_of
from buddy.protocol.events import EVENTS, LASTING, AssistantMessage, EventBody, RunComplete, RunStarted
from buddy.sessions.fork import Entry
from buddy.sessions.past import read_past
from buddy.sessions.state import SessionFold
from tests.log.records import SESSION, record
from tests.protocol.anything import shapes

ANY = {name: shapes(body) for name, body in EVENTS.items()}
KINDS = sorted(ANY) + 2 * sorted({"usage", *LASTING, *history.LASTING} - {"run_complete"})
DONE = ("assistant_message", "tool_claimed", "tool_result")
# So few values of what ties events to each other that they meet.
FEW = {
    "call_id": st.sampled_from(["call_1", "call_1", "call_2"]),
    "approval_id": st.sampled_from(["appr_1", "appr_2"]),
    "by": st.sampled_from(["cli", "cli", "acceptance"]),
    "scope": st.sampled_from(["once", "session"]),
    "after": st.sampled_from([{"profile": "fast", "model": "small"}, {"profile": "slow"}]),
    "through_seq": st.integers(0, 30),
    "code": st.sampled_from(["CONTEXT_80", history.LOST]),
    "source": st.sampled_from(["sandbox", "delegate"]),
    "phase": st.sampled_from([history.SESSION, history.STARTING]),
}


@st.composite
def bodies(draw: st.DrawFn, kinds: st.SearchStrategy[str]) -> EventBody:
    body = draw(ANY[draw(kinds)])
    changes: dict[str, object] = {name: draw(few) for name, few in FEW.items() if name in body.__struct_fields__}
    if isinstance(body, AssistantMessage):
        changes["tool_calls"] = tuple(replace(call, call_id=draw(FEW["call_id"])) for call in body.tool_calls)
    return replace(body, **changes, blobs=None)


def some(kinds: st.SearchStrategy[str], least: int, most: int) -> st.SearchStrategy[list[EventBody]]:
    return st.lists(bodies(kinds), min_size=least, max_size=most)


@st.composite
def logs(draw: st.DrawFn) -> list[Event]:
    """A session's events: one run at a time, each event in the run that is open; one run is over for certain."""
    kinds = st.sampled_from(KINDS)
    said = chain(
        *(draw(some(st.just(name), 1, 1)) for name in ("session_started", "run_started")),
        draw(some(kinds, 5, 15)),
        *(draw(some(st.just(name), 0, 1)) for name in DONE),
        draw(some(kinds, 0, 5)),
        draw(some(st.just("run_complete"), 1, 1)),
        draw(some(kinds, 0, 5)),
    )
    events: list[Event] = []
    run_id: str | None = None
    for seq, body in enumerate(said, 1):
        if isinstance(body, RunStarted):
            run_id = run_id or f"run_{seq}"
        told = replace(body, run_id=run_id) if isinstance(body, RunStarted) else body
        events.append(event_of(told, session_id=SESSION, seq=seq, ts=seq, run_id=run_id))
        if isinstance(body, RunComplete):
            run_id = None
    return events


@settings(max_examples=60, deadline=None)
@given(logs())
def test_the_events_that_are_read_give_the_same_state_as_all_events(events: list[Event]) -> None:
    asyncio.run(check(events))


async def check(events: list[Event]) -> None:
    log = MemoryLog(lambda: 1)
    lease = await log.create(record(), this_owner())
    await log.append(Batch(SESSION, lease.epoch, 0, events))
    everything = [(event, event.body()) for event in events]
    with patch("buddy.sessions.past.PAGE", 3):
        past = await read_past(log, SESSION, len(events))
    assert past.fold == folded(everything)
    for types, observed in ((Native.lasting, native), (history.LASTING, external)):
        assert observed([entry async for page in past.pages(types) for entry in page]) == observed(everything)


def folded(entries: Iterable[Entry]) -> SessionFold:
    fold = SessionFold()
    for event, body in entries:
        assert body is not None
        fold.apply(event, body)
    return fold


def native(entries: Iterable[Entry]) -> list[dict[str, object]]:
    transcript, pins = Transcript(), Pins()
    for event, body in entries:
        assert body is not None
        transcript.apply(event.seq, body)
        pins.apply(event.seq, body)
    return [vars(transcript), vars(pins)]


def external(entries: Iterable[Entry]) -> dict[str, object]:
    told = History()
    for _, body in entries:
        assert body is not None
        told.observe(body)
    return vars(told)
