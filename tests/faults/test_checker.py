"""The checker finds what is wrong: one sound session, and every way to break it."""

from collections.abc import Callable, Sequence

import msgspec
import pytest

from buddy.approvals.digest import nonce_of
from buddy.models.contract import AssistantItem, Item, ToolItem, UserItem
from buddy.protocol.envelopes import Event, event_of
from buddy.protocol.events import (
    ApprovalExpired,
    ApprovalReceived,
    ApprovalRequired,
    AssistantMessage,
    AssistantToken,
    EventBody,
    RunComplete,
    RunStarted,
    SessionStarted,
    StartedOptions,
    ToolCall,
    ToolClaimed,
    ToolResult,
    UserMessage,
    WarningRaised,
)
from buddy.protocol.shapes import BudgetLimits, ToolCallItem, ToolFailure
from buddy.sessions.state import SessionFold
from tests.harness.checker import Received, Recorded, check, invalid_conversation

SESSION, RUN = "sess_1", "run_1"
NONCE = nonce_of(SESSION, "call_1")
ITEM = ToolCallItem("call_1", "run_shell", '{"command":"echo $BUDDY_CALL >> ledger"}')

STARTED = SessionStarted(
    session_id=SESSION, state="idle", mode="interactive", provider="default", sandbox_provider="local"
)
MESSAGE = UserMessage(message_id="msg_1", text="do it", by="cli")
BEGINNING = RunStarted(run_id=RUN, options=StartedOptions(budget=BudgetLimits()))
ASKING = AssistantMessage(message_id="asst_1", text="", tool_calls=(ITEM,), finish="tool_calls", truncated=False)
CALL = ToolCall(source="sandbox", tool_name="run_shell", args={}, call_id="call_1")
QUESTION = ApprovalRequired(
    approval_id="appr_1",
    kind="exec",
    title="run",
    summary="echo",
    details={},
    options=("approve", "deny"),
    expires_at=5000,
    call_id="call_1",
    digest="d1",
)
APPROVAL = ApprovalReceived(approval_id="appr_1", decision="approve", by="cli", call_id="call_1", digest="d1")
CLAIM = ToolClaimed(call_id="call_1", attempt=1, tier="privileged", target="local", digest="d1")
RESULT = ToolResult(
    source="sandbox",
    tool_name="run_shell",
    duration_ms=1,
    is_error=False,
    text="exit code: 0",
    structured_error=None,
    call_id="call_1",
)
ANSWER = AssistantMessage(message_id="asst_2", text="done", tool_calls=(), finish="stop", truncated=False)
COMPLETE = RunComplete(run_id=RUN, outcome="success", summary="done")

SOUND: tuple[EventBody, ...] = (
    STARTED,
    MESSAGE,
    BEGINNING,
    ASKING,
    CALL,
    QUESTION,
    APPROVAL,
    CLAIM,
    RESULT,
    ANSWER,
    COMPLETE,
)
LEDGER = (NONCE,)


def events_of(bodies: Sequence[EventBody]) -> list[Event]:
    return [
        event_of(body, session_id=SESSION, seq=seq, ts=seq * 10, run_id=None if body is STARTED else RUN)
        for seq, body in enumerate(bodies, 1)
    ]


def fold_of(events: Sequence[Event]) -> SessionFold:
    fold = SessionFold()
    for event in events:
        body = event.body()
        assert body is not None
        fold.apply(event, body)
    return fold


def sound() -> Recorded:
    events = events_of(SOUND)
    received = (Received(SESSION, 0, events, to_end=True), Received(SESSION, 4, [*events[4:7], *events[5:7]]))
    return Recorded({SESSION: events}, received, LEDGER, {SESSION: fold_of(events)}, ("canary",), (b"a log file",))


def without(*bodies: EventBody) -> tuple[EventBody, ...]:
    return tuple(body for body in SOUND if body not in bodies)


def instead(old: EventBody, *new: EventBody) -> tuple[EventBody, ...]:
    return tuple(found for body in SOUND for found in (new if body is old else (body,)))


def failed(kind: str) -> ToolResult:
    failure = msgspec.convert({"type": kind, "retryable": False, "message": "no"}, ToolFailure)
    return msgspec.structs.replace(RESULT, is_error=True, structured_error=failure)


def changed(body: EventBody, **changes: object) -> EventBody:
    return msgspec.structs.replace(body, **changes)


def test_a_sound_session_has_no_violation() -> None:
    assert check(sound()) == []


def test_a_call_whose_outcome_is_unknown_may_or_may_not_have_happened() -> None:
    events = events_of(instead(RESULT, failed("UNKNOWN_OUTCOME")))
    assert check(Recorded({SESSION: events}, ledger=LEDGER)) == []
    assert check(Recorded({SESSION: events})) == []


BROKEN: list[tuple[str, tuple[EventBody, ...], tuple[str, ...], str]] = [
    ("no outcome", without(COMPLETE), LEDGER, "has no outcome"),
    ("two outcomes", (*SOUND, COMPLETE), LEDGER, "comes after the end"),
    ("an event after the end", (*SOUND, AssistantToken(text="late")), LEDGER, "comes after the end"),
    ("an outcome without a run", (COMPLETE, *without(COMPLETE)), LEDGER, "was not active"),
    ("two runs at once", instead(ASKING, changed(BEGINNING, run_id="run_2"), ASKING), LEDGER, "while run_1 was active"),
    ("a message twice", instead(BEGINNING, MESSAGE, BEGINNING), LEDGER, "was taken up in"),
    ("no result", without(RESULT), LEDGER, "has no result"),
    ("two results", instead(RESULT, RESULT, RESULT), LEDGER, "answered (1, 1, 2) times"),
    ("two calls", instead(CALL, CALL, CALL), LEDGER, "answered (1, 2, 1) times"),
    ("a result without a call", without(CALL), LEDGER, "without a tool_call"),
    ("a call nobody asked for", without(ASKING), LEDGER, "no assistant_message asked"),
    ("a result before its call", instead(CALL, RESULT, CALL), LEDGER, "comes before the tool_call"),
    ("no approval", without(APPROVAL), LEDGER, "without an approval"),
    ("a claim before its approval", instead(QUESTION, CLAIM, QUESTION), LEDGER, "without an approval"),
    ("a denial", instead(APPROVAL, changed(APPROVAL, decision="deny")), LEDGER, "without an approval"),
    ("another digest", instead(CLAIM, changed(CLAIM, digest="d2")), LEDGER, "without an approval"),
    ("two claims", instead(CLAIM, CLAIM, CLAIM), LEDGER, "was claimed twice"),
    ("a claim after the result", instead(RESULT, RESULT, changed(CLAIM, attempt=2)), LEDGER, "after its result"),
    ("no claim", without(CLAIM), LEDGER, "ran without a claim"),
    ("done without a claim", without(CLAIM), LEDGER, "executed without a claim"),
    ("two decisions", instead(CLAIM, APPROVAL, CLAIM), LEDGER, "decides appr_1 again"),
    ("expired and approved", instead(APPROVAL, ApprovalExpired(approval_id="appr_1"), APPROVAL), LEDGER, "again"),
    ("asked twice", instead(QUESTION, QUESTION, QUESTION), LEDGER, "was asked twice"),
    ("another thing shown", instead(QUESTION, changed(QUESTION, digest="d0")), LEDGER, "something else"),
    ("another result", instead(RESULT, changed(MESSAGE, message_id="msg_2"), RESULT), LEDGER, "has another result"),
    ("done twice", SOUND, (NONCE, NONCE), "was executed 2 times"),
    ("done and denied", instead(RESULT, failed("AUTH_FAILURE")), LEDGER, "executed and is reported as AUTH_FAILURE"),
    ("never done", SOUND, (), "was never executed"),
    ("done by nobody", SOUND, (NONCE, "stranger"), "is in no log"),
]


@pytest.mark.parametrize(("bodies", "ledger", "problem"), [row[1:] for row in BROKEN], ids=[row[0] for row in BROKEN])
def test_a_broken_log_is_found(bodies: tuple[EventBody, ...], ledger: tuple[str, ...], problem: str) -> None:
    found = check(Recorded({SESSION: events_of(bodies)}, ledger=ledger))
    assert any(problem in violation for violation in found), found


def late(events: list[Event]) -> list[Event]:
    return [msgspec.structs.replace(event, ts=event.ts + 100_000) if event.seq > 6 else event for event in events]


def renumbered(events: list[Event]) -> list[Event]:
    return [msgspec.structs.replace(event, seq=event.seq + 1) for event in events]


def strange(events: list[Event]) -> list[Event]:
    return [*events[:-1], msgspec.structs.replace(events[-1], session_id="sess_2")]


def gone(events: list[Event]) -> list[Event]:
    return [*events[:4], *events[5:]]


def doubled(events: list[Event]) -> list[Event]:
    return [*events[:4], events[3], *events[4:]]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (renumbered, "seq 2 is where 1 belongs"),
        (gone, "seq 6 is where 5 belongs"),
        (doubled, "seq 4 is where 5 belongs"),
        (strange, "belongs to sess_2"),
        (late, "after it expired"),
    ],
)
def test_broken_envelopes_are_found(change: Callable[[list[Event]], list[Event]], problem: str) -> None:
    found = check(Recorded({SESSION: change(events_of(SOUND))}, ledger=LEDGER))
    assert any(problem in violation for violation in found), found


@pytest.mark.parametrize(
    ("seqs", "to_end", "problem"),
    [
        ((1, 2, 4), False, "missed seq 3 to 3"),
        ((2, 3), False, "missed seq 1 to 1"),
        ((1, 3, 2), False, "missed seq 2 to 2"),
        ((1, 2, 3), True, "never received seq 4 to 11"),
    ],
)
def test_a_client_that_missed_something_is_found(seqs: tuple[int, ...], to_end: bool, problem: str) -> None:
    events = events_of(SOUND)
    received = Received(SESSION, 0, [events[seq - 1] for seq in seqs], to_end)
    assert any(problem in violation for violation in check(Recorded({SESSION: events}, (received,), LEDGER)))


def test_a_client_that_is_sent_old_events_out_of_order_is_found() -> None:
    events = events_of(SOUND)
    received = Received(SESSION, 2, [events[2], events[1]])
    found = check(Recorded({SESSION: events}, (received,), LEDGER))
    assert found == ["sess_1: a client from 2 on received seq 2 after 3"]


def test_a_client_that_received_what_is_not_in_the_log_is_found() -> None:
    events = events_of(SOUND)
    invented = event_of(AssistantToken(text="never committed"), session_id=SESSION, seq=12, ts=120, run_id=RUN)
    found = check(Recorded({SESSION: events}, (Received(SESSION, 0, [*events, invented]),), LEDGER))
    assert found == ["sess_1: a client from 0 on received seq 12, which is not in the log like that"]


def test_an_announced_gap_is_not_a_violation() -> None:
    gap = WarningRaised(code="EVENT_GAP", message="Replay gap detected; snapshot sent.")
    events = events_of((*without(COMPLETE), gap, COMPLETE))
    received = Received(SESSION, 0, events[10:], to_end=True)
    assert check(Recorded({SESSION: events}, (received,), LEDGER)) == []


def test_a_live_state_that_differs_from_the_log_is_found() -> None:
    live = fold_of(events_of(SOUND))
    live.outcome = "failed"
    found = check(Recorded({SESSION: events_of(SOUND)}, ledger=LEDGER, live={SESSION: live}))
    assert len(found) == 1
    assert "the live state is" in found[0]


@pytest.mark.parametrize("place", ["log", "client", "sink"])
def test_a_secret_is_found_wherever_it_is(place: str) -> None:
    events = events_of(SOUND)
    leaking = events_of(instead(ANSWER, changed(ANSWER, text="the key is canary")))
    recorded = Recorded(
        {SESSION: leaking if place == "log" else events},
        (Received(SESSION, 0, leaking),) if place == "client" else (),
        LEDGER,
        secrets=("canary",),
        sinks=(b"trace: canary",) if place == "sink" else (),
    )
    told = {"log": "a secret is in seq 10", "client": "was sent a secret", "sink": "in sink 0"}[place]
    assert any(told in violation for violation in check(recorded))


ASK = AssistantItem("", (ITEM, ToolCallItem("call_2", "read_file", "{}")))


@pytest.mark.parametrize(
    ("items", "problem"),
    [
        ([ASK, ToolItem("call_2", ""), ToolItem("call_1", ""), UserItem("and?")], None),
        ([ASK, ToolItem("call_1", "")], "['call_2'] have no result"),
        ([ASK, ToolItem("call_1", ""), UserItem("and?"), ToolItem("call_2", "")], "['call_2'] have no result"),
        ([ASK, ToolItem("call_1", ""), ToolItem("call_1", "")], "did not ask for"),
        ([UserItem("hi"), ToolItem("call_1", "")], "did not ask for"),
        ([AssistantItem("", (ITEM, ITEM))], "the same call id twice"),
    ],
)
def test_a_conversation_that_a_provider_would_refuse_is_found(items: list[Item], problem: str | None) -> None:
    found = invalid_conversation(items)
    assert found is None if problem is None else problem in str(found)


def test_an_incomplete_log_may_end_anywhere() -> None:
    events = events_of(SOUND)
    for end in range(len(events)):
        assert check(Recorded({SESSION: events[:end]}, ledger=LEDGER, complete=False)) == []
