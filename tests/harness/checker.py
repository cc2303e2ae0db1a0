"""The offline checker: the invariants, checked on a log, what clients received and a ledger of real side effects.

Invariants: it judges only what was recorded, never a running process; every violation is one line that names the
session and the place; a sound scenario gives an empty list. A ledger line is the `BUDDY_CALL` nonce of the call that
was executed, written by the executed command itself.
"""

import functools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from buddy.approvals.digest import nonce_of
from buddy.backends.native.transcript import Transcript
from buddy.errors import ToolError
from buddy.models.contract import AssistantItem, Item, ToolItem, UserItem
from buddy.protocol.envelopes import Event
from buddy.protocol.events import (
    LASTING,
    ApprovalExpired,
    ApprovalReceived,
    ApprovalRequired,
    AssistantMessage,
    EventBody,
    RunComplete,
    RunStarted,
    SessionSnapshot,
    ToolCall,
    ToolClaimed,
    ToolResult,
    UserMessage,
    WarningRaised,
)
from buddy.protocol.shapes import ToolCallItem
from buddy.sessions.state import SessionFold
from buddy.tools.registry import Registry
from buddy.tools.toolbox import builtin

# What changes the history that a provider is sent.
SPOKEN = LASTING | {"hook_finished", "files_restored"}
# How a call that was executed may end: with its result, or with an unknown outcome.
HAPPENED = frozenset({"EXEC_NON_ZERO_EXIT", "EXEC_TIMEOUT", "UNKNOWN_OUTCOME"})
# A decision made in the last moment is stamped a little after the approval's own timer.
CLOCK_SLACK_MS = 1000


class Received(Struct, frozen=True):
    """What one client was sent of one session after its cursor; `to_end`: it stayed until the log's end."""

    session_id: str
    cursor: int
    events: Sequence[Event]
    to_end: bool = False


class Recorded(Struct, frozen=True):
    """Everything a scenario left behind.

    `complete`: the faults are over and the log is complete, so every run has ended and everything done is in it.
    """

    log: Mapping[str, Sequence[Event]]
    received: Sequence[Received] = ()
    ledger: Sequence[str] = ()
    live: Mapping[str, SessionFold] = {}
    secrets: Sequence[str] = ()
    sinks: Sequence[bytes] = ()
    complete: bool = True


def check(recorded: Recorded) -> list[str]:
    """Every violation; an empty list where all invariants hold."""
    found: list[str] = []
    for session_id, events in recorded.log.items():
        history = History(session_id, events)
        found += check_seqs(history)
        found += check_runs(history, complete=recorded.complete)
        found += check_messages(history)
        found += check_calls(history, complete=recorded.complete)
        found += check_claims(history)
        found += check_decisions(history)
        found += check_provider_history(history)
        found += check_live_state(history, recorded.live.get(session_id))
    found += check_ledger(recorded)
    for received in recorded.received:
        found += check_received(received, recorded.log.get(received.session_id, ()))
    return [*found, *check_secrets(recorded)]


class History:
    """One session's events with their typed bodies."""

    def __init__(self, session_id: str, events: Sequence[Event]) -> None:
        self.session_id = session_id
        self.events = events
        self.bodies: list[tuple[Event, EventBody]] = [(event, body) for event in events if (body := event.body())]

    def results(self) -> dict[str, list[tuple[Event, ToolResult]]]:
        found: dict[str, list[tuple[Event, ToolResult]]] = {}
        for event, body in self.bodies:
            if isinstance(body, ToolResult):
                found.setdefault(body.call_id or "", []).append((event, body))
        return found

    def claims(self) -> dict[str, list[tuple[Event, ToolClaimed]]]:
        found: dict[str, list[tuple[Event, ToolClaimed]]] = {}
        for event, body in self.bodies:
            if isinstance(body, ToolClaimed):
                found.setdefault(body.call_id, []).append((event, body))
        return found

    def says(self, what: str) -> str:
        return f"{self.session_id}: {what}"


def check_seqs(history: History) -> Iterator[str]:
    """`seq` starts at 1, without a gap, each once."""
    for expected, event in enumerate(history.events, 1):
        if event.seq != expected:
            yield history.says(f"seq {event.seq} is where {expected} belongs")
            return
        if event.session_id != history.session_id:
            yield history.says(f"seq {event.seq} belongs to {event.session_id}")


def check_runs(history: History, *, complete: bool) -> Iterator[str]:
    """One `run_complete` per run, its last event; one run at a time."""
    done: set[str] = set()
    active: str | None = None
    for event, body in history.bodies:
        if event.run_id in done:
            yield history.says(f"seq {event.seq} ({event.type}) comes after the end of {event.run_id}")
        match body:
            case RunStarted():
                if active not in (None, body.run_id):
                    yield history.says(f"{body.run_id} started while {active} was active")
                active = body.run_id
            case RunComplete():
                if body.run_id != active or event.run_id != body.run_id:
                    yield history.says(f"seq {event.seq} ends {body.run_id}, which was not active")
                done.add(body.run_id)
                active = None
            case _:
                pass
    if complete and active is not None:
        yield history.says(f"{active} has no outcome")


def check_messages(history: History) -> Iterator[str]:
    """The same clientMessageId is one message of one run, and every message has a run."""
    seen: dict[str, str | None] = {}
    for event, body in history.bodies:
        if isinstance(body, UserMessage):
            if body.message_id in seen:
                yield history.says(f"{body.message_id} was taken up in {seen[body.message_id]} and in {event.run_id}")
            seen[body.message_id] = event.run_id
            if event.run_id is None:
                yield history.says(f"{body.message_id} has no run")


def check_calls(history: History, *, complete: bool) -> Iterator[str]:
    """Each call the model made, or another agent's, is seen once and has one result; nothing else has one."""
    asked = Counter(item.call_id for item in requested_calls(history))
    called = Counter(body.call_id for _, body in history.bodies if isinstance(body, ToolCall))
    delegated = {body.call_id for _, body in history.bodies if isinstance(body, ToolCall) and body.source == "delegate"}
    answered = {call_id: len(results) for call_id, results in history.results().items()}
    for call_id in dict.fromkeys([*asked, *called, *answered]):
        counts = asked[call_id or ""], called[call_id], answered.get(call_id or "", 0)
        if max(counts) > 1:
            yield history.says(f"{call_id} was asked for, called and answered {counts} times")
        if counts[0] == 0 and call_id not in delegated:
            yield history.says(f"{call_id} has a call or a result, but no assistant_message asked for it")
        if counts[2] > counts[1]:
            yield history.says(f"{call_id} has a tool_result without a tool_call")
        if complete and counts[2] == 0:
            yield history.says(f"{call_id} has no result")
    yield from _misplaced_results(history)


def requested_calls(history: History) -> Iterator[ToolCallItem]:
    """What the model asked for, and what a person's slash command inserts."""
    for _, body in history.bodies:
        if isinstance(body, AssistantMessage):
            yield from body.tool_calls
        elif isinstance(body, UserMessage):
            yield from body.insertions


def _misplaced_results(history: History) -> Iterator[str]:
    at: dict[str, int] = {}
    for event, body in history.bodies:
        if isinstance(body, ToolCall) and body.call_id:
            at[body.call_id] = event.seq
        elif isinstance(body, ToolResult | ToolClaimed) and body.call_id and body.call_id not in at:
            yield history.says(f"seq {event.seq} ({event.type}) comes before the tool_call of {body.call_id}")


def check_claims(history: History) -> Iterator[str]:
    """A claim follows an approval of exactly what is claimed, comes once, and before the result."""
    approved: dict[str, str | None] = {}
    finished: set[str] = set()
    claimed: set[tuple[str, int]] = set()
    for event, body in history.bodies:
        match body:
            case ApprovalReceived() if body.call_id:
                approved[body.call_id] = body.digest if body.decision == "approve" else None
            case ToolResult() if body.call_id:
                finished.add(body.call_id)
                if _needs_claim(body) and not any(call_id == body.call_id for call_id, _ in claimed):
                    yield history.says(f"{body.call_id} ({body.tool_name}) ran without a claim")
            case ToolClaimed():
                if not body.digest or approved.get(body.call_id) != body.digest:
                    yield history.says(f"seq {event.seq} claims {body.call_id} without an approval of that digest")
                if body.call_id in finished:
                    yield history.says(f"seq {event.seq} claims {body.call_id} after its result")
                if (body.call_id, body.attempt) in claimed:
                    yield history.says(f"{body.call_id} was claimed twice")
                claimed.add((body.call_id, body.attempt))
            case _:
                pass


def _needs_claim(result: ToolResult) -> bool:
    """Whether this result says that something above read-only has run."""
    failure = result.structured_error.type if result.structured_error else None
    return _is_claimed(result.tool_name) and (failure is None or failure in HAPPENED)


@functools.cache
def _is_claimed(tool: str) -> bool:
    try:
        return Registry(builtin()).get(tool).tier != "read-only"
    except ToolError:
        return False


def check_decisions(history: History) -> Iterator[str]:
    """At most one decision per approval, made before it expired, about the digest that was shown."""
    shown: dict[str, ApprovalRequired] = {}
    decided: set[str] = set()
    for event, body in history.bodies:
        match body:
            case ApprovalRequired():
                if body.approval_id in shown:
                    yield history.says(f"{body.approval_id} was asked twice")
                shown[body.approval_id] = body
            case ApprovalReceived() | ApprovalExpired():
                if body.approval_id in decided:
                    yield history.says(f"seq {event.seq} decides {body.approval_id} again")
                decided.add(body.approval_id)
                question = shown.get(body.approval_id)
                if question and isinstance(body, ApprovalReceived):
                    yield from _unfit(history, event, body, question)
            case _:
                pass


def _unfit(history: History, event: Event, body: ApprovalReceived, question: ApprovalRequired) -> Iterator[str]:
    if (body.digest, body.call_id) != (question.digest, question.call_id):
        yield history.says(f"seq {event.seq} decides something else than {body.approval_id} showed")
    if body.decision == "approve" and event.ts > question.expires_at + CLOCK_SLACK_MS:
        yield history.says(f"seq {event.seq} approves {body.approval_id} after it expired")


def check_ledger(recorded: Recorded) -> Iterator[str]:
    """What was done was claimed, done once, and never reported as not done; what is reported as done was done."""
    executed = Counter(recorded.ledger)
    for session_id, events in recorded.log.items():
        history = History(session_id, events)
        claims, results, calls = history.claims(), history.results(), _calls(history)
        for call_id in dict.fromkeys([*calls, *claims]):
            times = executed.pop(nonce_of(session_id, call_id), 0)
            if times > 1:
                yield history.says(f"{call_id} was executed {times} times")
            if times and call_id not in claims and recorded.complete:
                yield history.says(f"{call_id} was executed without a claim")
            for _, result in results.get(call_id, ()):
                failure = result.structured_error.type if result.structured_error else None
                if times and failure is not None and failure not in HAPPENED:
                    yield history.says(f"{call_id} was executed and is reported as {failure}")
                if not times and failure is None and calls.get(call_id, False):
                    yield history.says(f"{call_id} is reported as done and was never executed")
    for nonce, times in executed.items() if recorded.complete else ():
        yield f"{nonce} was executed {times} times and is in no log"


def _calls(history: History) -> dict[str, bool]:
    """The calls the model made, and whether they write the ledger."""
    return {
        item.call_id: "BUDDY_CALL" in item.arguments
        for _, body in history.bodies
        if isinstance(body, AssistantMessage)
        for item in body.tool_calls
    }


def check_provider_history(history: History) -> Iterator[str]:
    """What a provider would be sent is valid after every single event, and has the results that were recorded."""
    transcript = Transcript()
    for event, body in history.bodies:
        transcript.apply(event.seq, body)
        if event.type not in SPOKEN:
            continue
        problem = invalid_conversation(transcript.closed())
        if problem is not None:
            yield history.says(f"the history after seq {event.seq} is not valid: {problem}")
            return
    results = {call_id: found[0][1] for call_id, found in history.results().items()}
    for item in transcript.closed():
        if isinstance(item, ToolItem) and item.call_id in results:
            result = results[item.call_id]
            # What a person said to it, or a hook, follows the result.
            told = item.text.partition("\n\n<hook-context")[0].partition("\n\n[allowed by ")[0]
            if not result.blobs and told != result.text.partition("\n\n[allowed by ")[0]:
                yield history.says(f"the history has another result of {item.call_id} than the log")


def invalid_conversation(items: Sequence[Item]) -> str | None:
    """Chat Completions: the tool messages after an assistant message answer its calls, each exactly once."""
    open_calls: set[str] = set()
    for item in items:
        match item:
            case ToolItem():
                if item.call_id not in open_calls:
                    return f"a result for {item.call_id}, which the message before did not ask for"
                open_calls.discard(item.call_id)
            case UserItem() | AssistantItem():
                if open_calls:
                    return f"{sorted(open_calls)} have no result"
                calls = item.calls if isinstance(item, AssistantItem) else ()
                open_calls = {call.call_id for call in calls}
                if len(open_calls) < len(calls):
                    return "one message asks for the same call id twice"
    return f"{sorted(open_calls)} have no result" if open_calls else None


def check_live_state(history: History, live: SessionFold | None) -> Iterator[str]:
    """The state that was live equals the state folded from the log."""
    if live is None:
        return
    fold = SessionFold()
    for event, body in history.bodies:
        fold.apply(event, body)
    if fold != live:
        yield history.says(f"the live state is {live}, the log says {fold}")


def check_received(received: Received, log: Sequence[Event]) -> Iterator[str]:
    """In order and once each, from the cursor on without a gap, exactly what the log has; or a gap was announced."""
    where = f"{received.session_id}: a client from {received.cursor} on"
    known = {event.seq: event.line() for event in log}
    expected = received.cursor + 1
    for event in _deduplicated(received.events):
        if known.get(event.seq) != event.line():
            yield f"{where} received seq {event.seq}, which is not in the log like that"
            return
        if event.seq < expected:
            yield f"{where} received seq {event.seq} after {expected - 1}"
            return
        if event.seq > expected and not _announces_gap(event):
            yield f"{where} missed seq {expected} to {event.seq - 1} without an announced gap"
            return
        expected = event.seq + 1
    last = log[-1].seq if log else 0
    if received.to_end and expected <= last:
        yield f"{where} never received seq {expected} to {last}"


def _deduplicated(events: Sequence[Event]) -> Iterator[Event]:
    seen: set[bytes] = set()
    for event in events:
        line = event.line()
        if line not in seen:
            seen.add(line)
            yield event


def _announces_gap(event: Event) -> bool:
    body = event.body()
    return isinstance(body, SessionSnapshot) or (isinstance(body, WarningRaised) and body.code == "EVENT_GAP")


def check_secrets(recorded: Recorded) -> Iterator[str]:
    """No canary in the log, in what clients received, or in any other sink."""
    for secret in recorded.secrets:
        needle = secret.encode()
        for session_id, events in recorded.log.items():
            for event in events:
                if needle in event.line():
                    yield f"{session_id}: a secret is in seq {event.seq}"
        for received in recorded.received:
            if any(needle in event.line() for event in received.events):
                yield f"{received.session_id}: a client was sent a secret"
        for number, sink in enumerate(recorded.sinks):
            if needle in sink:
                yield f"a secret is in sink {number}"
