"""A copy of a session up to some event, which continues independently.

Invariants: the copy ends between turns, so every call has its result; a run that was active there is closed as
cancelled; what was allowed "for this session" was meant for the original and is not copied. The copy's events are its
own: its session id, its seqs from 1; their contents and times are unchanged.
"""

from collections import deque
from collections.abc import Iterable
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

COPIED = events_where(lambda facts: facts.copied)
_ENDS_STEP = events_where(lambda facts: facts.ends_step)
DECISIVE = _ENDS_STEP | {"user_message", "tool_call"}
"""What decides where a copy may be cut."""

Entry = tuple[Event, EventBody | None]

FORK = " (fork)"


class Boundary:
    """Feed it events in order; `seq` is that of the last turn boundary, 0 if there is none."""

    def __init__(self) -> None:
        self.seq = 0
        self._open_calls: set[str] = set()

    def observe(self, event: Event, body: EventBody | None) -> None:
        open_calls = self._open_calls
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
            self.seq = event.seq


def fork_title(title: str | None, first: str) -> str:
    """The name of a copy: the original's, or else its first message, and that it is a copy."""
    name = cut_at_word((title or title_of(first)).removesuffix(FORK), MAX_TITLE - len(FORK))
    return f"{name}{FORK}".strip()


def with_plan(started: SessionStarted, plan: bool | None) -> SessionStarted:
    """The start of a copy: in plan mode if the original was, however that came about."""
    if plan is None:
        return started
    return replace(started, options=replace(started.options or SessionOptions(), plan=plan))


class Copier:
    """Makes the events of a copy, one after the other: `begin`, `copy` of each original up to the cut, `end`.

    `compacted` are the seqs up to which the original's compactions go.
    """

    def __init__(self, started: SessionStarted, ts: int, compacted: Iterable[int] = ()) -> None:
        self._started = started
        self._ts = ts
        self._seq = 0
        self._run_id: str | None = None
        self._copied = 0  # the seq of the last event that is a copy
        self._compacted = deque(sorted(set(compacted)))
        self._places: dict[int, int] = {}
        self._row = ListedRow()

    @property
    def facts(self) -> RowFacts:
        """What the list shows of the copy; the tokens of the copied runs count as its own, as they do in its log."""
        return self._row.facts

    def begin(self) -> Event:
        return self._add(self._started)

    def copy(self, event: Event) -> Event:
        self._ts = event.ts
        if event.type == "run_started":
            self._run_id = event.run_id
        elif event.type == "run_complete":
            self._run_id = None
        while self._compacted and self._compacted[0] < event.seq:
            self._places[self._compacted.popleft()] = self._copied
        self._seq += 1
        self._copied = self._seq
        copy = replace(event, session_id=self._started.session_id, seq=self._seq, payload=self._adapt_payload(event))
        body = copy.body() if event.type in ("usage", "session_compacted", "child_finished") else None
        if body is not None:
            self._row.apply(body)
        return copy

    def end(self, original: str, cut: int, by: str, now: int) -> list[Event]:
        """Close what is open at the cut, and say where the copy comes from."""
        closed = [] if self._run_id is None else [self._add(_cancelled_run(self._run_id), self._run_id)]
        self._ts = now
        return [*closed, self._add(SessionForked(from_session_id=original, from_seq=cut, by=by))]

    def _add(self, body: EventBody, run_id: str | None = None) -> Event:
        self._seq += 1
        return event_of(body, session_id=self._started.session_id, seq=self._seq, ts=self._ts, run_id=run_id)

    def _adapt_payload(self, event: Event) -> Raw:
        """The payload, without what would be wrong in another session."""
        if event.type not in ("session_compacted", "approval_received"):
            return event.payload
        tree: dict[str, Any] = msgspec.json.decode(event.payload)
        tree.pop("scope", None)
        if "throughSeq" in tree:
            tree["throughSeq"] = self._places.get(tree["throughSeq"], self._copied)
        return Raw(msgspec.json.encode(tree))


def _cancelled_run(run_id: str) -> RunComplete:
    return RunComplete(
        run_id=run_id,
        outcome="cancelled",
        summary="cancelled: the session was forked here",
        headless=Headless(EXIT_CODES["cancelled"]),
        reason="cancelled",
    )
