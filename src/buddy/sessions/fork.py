"""A copy of a session up to some event, which continues independently.

Invariants: the copy ends between turns, so every call has its result; a run that was active there is closed as
cancelled; what was allowed "for this session" was meant for the original and is not copied. The copy's events are its
own: its session id, its seqs from 1; their contents and times are unchanged.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from buddy.log.contract import RowFacts
from buddy.protocol.codes import EXIT_CODES
from buddy.protocol.envelopes import Event, event_of
from buddy.protocol.events import (
    AcceptanceResult,
    ApprovalExpired,
    ApprovalPolicyChanged,
    ApprovalReceived,
    ApprovalRequired,
    AssistantMessage,
    AssistantRestart,
    AssistantToken,
    CancelScheduled,
    ChildFinished,
    ChildStarted,
    EventBody,
    FilesRestored,
    HookFinished,
    Informational,
    ModelRequest,
    ModelSwitched,
    QuestionAnswered,
    QuestionAsked,
    RunCancelling,
    RunComplete,
    RunStarted,
    SessionCompacted,
    SessionForked,
    SessionStarted,
    ThinkingToken,
    ToolCall,
    ToolClaimed,
    ToolResult,
    Usage,
    UserMessage,
    events_where,
)
from buddy.protocol.shapes import Headless, SessionOptions
from buddy.protocol.titles import MAX_TITLE, cut_at_word, title_of
from buddy.sessions.listing import ListedRow

_COPIED = events_where(lambda facts: facts.copied)
_ENDS_STEP = events_where(lambda facts: facts.ends_step)

Entry = tuple[Event, EventBody | None]

FORK = " (fork)"


def boundary(entries: Sequence[Entry], seq: int) -> int:
    """The seq of the last turn boundary at or before `seq`; 0 if there is none."""
    open_calls: set[str] = set()
    found = 0
    for event, body in entries:
        if event.seq > seq:
            break
        match body:
            case AssistantMessage() | UserMessage():
                calls = body.tool_calls if isinstance(body, AssistantMessage) else body.insertions
                open_calls |= {call.call_id for call in calls}
            case ToolCall():
                if body.source == "delegate":
                    open_calls.add(body.call_id or "")
            case ToolResult():
                open_calls.discard(body.call_id or "")
            case RunComplete():
                open_calls.clear()
            case (
                Informational()
                | SessionStarted()
                | ThinkingToken()
                | AssistantToken()
                | ApprovalRequired()
                | ApprovalReceived()
                | RunStarted()
                | RunCancelling()
                | CancelScheduled()
                | ModelRequest()
                | AssistantRestart()
                | ToolClaimed()
                | ApprovalExpired()
                | ApprovalPolicyChanged()
                | Usage()
                | ModelSwitched()
                | SessionCompacted()
                | SessionForked()
                | FilesRestored()
                | AcceptanceResult()
                | HookFinished()
                | ChildStarted()
                | ChildFinished()
                | QuestionAsked()
                | QuestionAnswered()
                | None
            ):
                pass  # neither opens nor closes a call
        if event.type in _ENDS_STEP and not open_calls:
            found = event.seq
    return found


def fork_title(title: str | None, entries: Sequence[Entry]) -> str:
    """The name of a copy: the original's, or else its first message, and that it is a copy."""
    first = next((body.text for _, body in entries if isinstance(body, UserMessage)), "")
    name = cut_at_word(title or title_of(first), MAX_TITLE - len(FORK))
    return f"{name}{FORK}".strip()


def fork_facts(copy: Sequence[Event], original: str) -> RowFacts:
    """What the list shows of a copy; the tokens of the copied runs count as its own, as they do in its log."""
    row = ListedRow()
    for event in copy:
        body = event.body() if event.type in ("usage", "session_compacted", "child_finished") else None
        if body is not None:
            row.apply(body)
    return replace(row.facts, parent=original)


def with_plan_of(entries: Sequence[Entry], seq: int, started: SessionStarted) -> SessionStarted:
    """The start of a copy: in plan mode if the original was at `seq`, however that came about."""
    changes = [body.plan for event, body in entries if event.seq <= seq and isinstance(body, ApprovalPolicyChanged)]
    plan = next((plan for plan in reversed(changes) if plan is not None), None)
    if plan is None:
        return started
    return replace(started, options=replace(started.options or SessionOptions(), plan=plan))


def fork_events(entries: Sequence[Entry], seq: int, started: SessionStarted, by: str, now: int) -> list[Event]:
    """The first events of the copy, beginning with `started`; `entries` are the original's, with full bodies."""
    cut = boundary(entries, seq)
    first = entries[0][0] if entries else None
    copier = _Copier(started.session_id, first.ts if first else now)
    copier.add(started)
    for event, _ in entries:
        if event.seq <= cut and event.type in _COPIED:
            copier.copy(event)
    if copier.run_id is not None:
        copier.add(_cancelled_run(copier.run_id), copier.run_id)
    copier.ts = now
    copier.add(SessionForked(from_session_id=first.session_id if first else "", from_seq=cut, by=by))
    return copier.events


class _Copier:
    def __init__(self, session_id: str, ts: int) -> None:
        self.events: list[Event] = []
        self.ts = ts
        self.run_id: str | None = None
        self._session_id = session_id
        self._places: list[tuple[int, int]] = []

    def add(self, body: EventBody, run_id: str | None = None) -> None:
        seq = len(self.events) + 1
        self.events.append(event_of(body, session_id=self._session_id, seq=seq, ts=self.ts, run_id=run_id))

    def copy(self, event: Event) -> None:
        self.ts = event.ts
        if event.type == "run_started":
            self.run_id = event.run_id
        elif event.type == "run_complete":
            self.run_id = None
        seq = len(self.events) + 1
        self._places.append((event.seq, seq))
        payload = self._adapt_payload(event)
        self.events.append(replace(event, session_id=self._session_id, seq=seq, payload=payload))

    def _adapt_payload(self, event: Event) -> Raw:
        """The payload, without what would be wrong in another session."""
        if event.type not in ("session_compacted", "approval_received"):
            return event.payload
        tree: dict[str, Any] = msgspec.json.decode(event.payload)
        tree.pop("scope", None)
        if "throughSeq" in tree:
            through = tree["throughSeq"]
            tree["throughSeq"] = max((new for old, new in self._places if old <= through), default=0)
        return Raw(msgspec.json.encode(tree))


def _cancelled_run(run_id: str) -> RunComplete:
    return RunComplete(
        run_id=run_id,
        outcome="cancelled",
        summary="cancelled: the session was forked here",
        headless=Headless(EXIT_CODES["cancelled"]),
        reason="cancelled",
    )
