"""The view: a pure fold, so what is delivered twice, or again from an earlier cursor, changes nothing."""

import copy
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from buddy.client.view import View
from buddy.protocol.envelopes import Event, event_of
from buddy.protocol.events import (
    EVENTS,
    ApprovalRequired,
    EventBody,
    RunComplete,
    SessionSnapshot,
    SnapshotMeta,
    WarningRaised,
)
from buddy.protocol.shapes import ApprovalRequest
from tests.harness.models import calls, says
from tests.harness.runtime import scripted_host
from tests.protocol.anything import shapes

bodies: st.SearchStrategy[EventBody] = st.one_of([shapes(kind) for kind in EVENTS.values()])
told = st.lists(st.tuples(bodies, st.sampled_from([None, "run_1", "run_2"])), max_size=12).map(
    lambda found: [
        event_of(body, session_id="sess_1", seq=seq, ts=seq, run_id=run_id)
        for seq, (body, run_id) in enumerate(found, 1)
    ]
)


def view_of(events: list[Event]) -> View:
    view = View()
    for event in events:
        view.apply(event.to_json())
    return view


def contents(view: View) -> dict[str, object]:
    """Everything in a view, for comparison."""
    return {**vars(view), "runs": {run_id: vars(run) for run_id, run in view.runs.items()}}


@settings(deadline=None)
@given(events=told, data=st.data())
def test_what_is_delivered_again_changes_nothing(events: list[Event], data: st.DataObject) -> None:
    delivered: list[Event] = []
    for event in events:
        again = data.draw(st.integers(0, len(delivered)))
        delivered += [*delivered[len(delivered) - again :], event, event]
    assert contents(view_of(delivered)) == contents(view_of(events))


@settings(deadline=None)
@given(events=told, cut=st.integers(0, 12))
def test_a_view_continues_from_where_it_was(events: list[Event], cut: int) -> None:
    earlier = copy.deepcopy(view_of(events[:cut]))
    for event in events[max(0, cut - 3) :]:
        earlier.apply(event.to_json())
    assert contents(earlier) == contents(view_of(events))


def asked(approval_id: str) -> ApprovalRequired:
    return ApprovalRequired(
        approval_id=approval_id, kind="exec", title="t", summary="s", details={}, options=("approve",), expires_at=9
    )


def snapshot(approval_id: str) -> SessionSnapshot:
    pending = ApprovalRequest(approval_id, "exec", "t", "s", {}, ("approve",), 9)
    meta = SnapshotMeta("default", "local")
    return SessionSnapshot(state="awaiting_approval", pending_approval=pending, meta=meta, active_run_id="run_1")


def numbered(first: int, ts: int, *bodies: EventBody) -> list[Event]:
    return [
        event_of(body, session_id="sess_1", seq=seq, ts=ts, run_id="run_1") for seq, body in enumerate(bodies, first)
    ]


GAP = WarningRaised(code="EVENT_GAP", message="Replay gap detected; snapshot sent.")


@pytest.mark.parametrize("first", [3, 40])
def test_what_waits_after_a_gap_is_what_the_snapshot_says(first: int) -> None:
    view = view_of(numbered(20, 1, asked("appr_lost")))
    for event in numbered(first, 2, GAP, snapshot("appr_1"), asked("appr_2")):
        assert view.apply(event.to_json())
    assert (list(view.approvals), view.active, view.last_seq) == (["appr_1", "appr_2"], "run_1", first + 2)


def test_a_gap_of_another_client_changes_nothing() -> None:
    view = view_of(numbered(20, 1, asked("appr_1"), asked("appr_2"), GAP, snapshot("appr_1")))
    assert list(view.approvals) == ["appr_1", "appr_2"]


def test_an_unknown_event_moves_the_cursor_and_nothing_else() -> None:
    view = View()
    event = event_of(RunComplete(run_id="run_1", outcome="success", summary=""), session_id="sess_1", seq=7, ts=1)
    unknown = Event("sess_1", 7, 1, "invented_later", event.payload, "run_1")
    assert view.apply(unknown.to_json())
    assert contents(view) == {**contents(View()), "last_seq": 7, "last_ts": 1}


@pytest.mark.parametrize(("mode", "state"), [("interactive", "idle"), ("headless", "completed")])
async def test_a_view_agrees_with_the_session(tmp_path: Path, mode: str, state: str) -> None:
    script = (calls(("run_shell", {"command": "true"})), says("the answer"))
    async with scripted_host(tmp_path, *script) as host, host.client() as client:
        session_id = await client.start(mode, approval_policy="all")
        run_id = await client.send("go")
        await client.wait_for(RunComplete)
        view, session = view_of(client.received), host.runtime.sessions.live(session_id)
        assert session is not None
        assert (view.state, view.active, view.approvals) == (state, None, {})
        assert view.state == session.state
        shown = view.runs[run_id]
        assert (shown.prompt, shown.finished_text, shown.text, shown.turns) == ("go", "the answer", "", 2)
