"""A readable transcript of events: who said what, what was called and with what result, how it ended.

Invariants: text from outside passes `clean` before it is part of a line; events that only report progress are omitted.
"""

from collections.abc import Callable, Iterator

import msgspec
from msgspec import Struct

from buddy.cli.report import DECIDED
from buddy.protocol.events import (
    AcceptanceResult,
    ApprovalExpired,
    ApprovalPolicyChanged,
    ApprovalReceived,
    ApprovalRequired,
    AssistantMessage,
    CancelScheduled,
    Error,
    EventBody,
    HookFinished,
    ModelSwitched,
    Recovery,
    RunCancelling,
    RunComplete,
    RunStarted,
    SessionArchived,
    SessionCompacted,
    SessionForked,
    SessionRenamed,
    SessionStarted,
    ToolCall,
    ToolClaimed,
    ToolResult,
    UserMessage,
    WarningRaised,
)
from buddy.terminal.style import Style

MAX_RESULT_LINES = 20

Clean = Callable[[str], str]


class TranscriptLine(Struct, frozen=True):
    """A line of the transcript; `heads` marks the first line of an event."""

    text: str
    heads: bool


def render(body: EventBody, style: Style, clean: Clean) -> Iterator[TranscriptLine]:
    """The lines of one event; none for events that are omitted."""
    found = _entry(body)
    if found is None:
        return
    word, text, paint = found
    painted = {"": str, "bold": style.bold, "green": style.green, "red": style.red, "yellow": style.yellow}[paint]
    for number, line in enumerate(clean(text).split("\n") if text else [""]):
        head = painted(f"{clean(word):<10}") if number == 0 else " " * 10
        yield TranscriptLine(f"{head}  {line}".rstrip(), heads=number == 0)


def _entry(body: EventBody) -> tuple[str, str, str] | None:
    match body:
        case SessionStarted():
            place = body.repo.root_path if body.repo else "."
            return "started", f"{body.session_id} ({body.mode}) in {place}", "bold"
        case UserMessage():
            return "user", body.text if body.by in ("cli", "headless") else f"[{body.by}] {body.text}", "bold"
        case AssistantMessage():
            cut = "\n[the reply was cut off here]" if body.truncated else ""
            return ("assistant", body.text + cut, "bold") if body.text or cut else None
        case ToolCall():
            return "call", f"{body.tool_name} {msgspec.json.encode(body.args).decode()}", ""
        case ToolResult():
            failure = body.structured_error
            return "result", _first_lines(body.text), "red" if failure and failure.type == "UNKNOWN_OUTCOME" else ""
        case RunComplete():
            why = f" ({body.reason})" if body.reason and body.reason != body.outcome else ""
            checks = f", {body.acceptance.passed} of {body.acceptance.total} checks passed" if body.acceptance else ""
            return "complete", f"{body.outcome}{why}{checks}", "green" if body.outcome == "success" else "red"
        case _:
            return _decision(body) or _note(body)


def _decision(body: EventBody) -> tuple[str, str, str] | None:
    match body:
        case ApprovalRequired():
            return "approval", f"{body.title}: {body.summary}\n{_details(body)}", "yellow"
        case ApprovalReceived():
            comment = f": {body.comment}" if body.comment else ""
            return (
                "decided",
                f"{DECIDED[body.decision]} by {body.by}{comment}",
                "green" if body.decision == "approve" else "red",
            )
        case ApprovalExpired():
            return "decided", "approval timed out; denied", "red"
        case ApprovalPolicyChanged():
            plan = "" if body.plan is None else f", plan mode {'on' if body.plan else 'off'}"
            revoked = f", revoked {body.revoked}" if body.revoked else ""
            granted = f", still granted: {body.granted.summary}" if body.granted else ""
            return "policy", f"{body.policy}{plan}{revoked}{granted} by {body.by}", ""
        case ToolClaimed():
            return "claimed", f"{body.call_id} ({body.tier}) on {body.target}", ""
        case AcceptanceResult():
            word = "passed" if body.passed else f"failed with exit code {body.exit_code}"
            output = f"\n{_first_lines(body.output)}" if body.output and not body.passed else ""
            return "check", f"{body.id} {word}{output}", "green" if body.passed else "red"
        case _:
            return None


def _note(body: EventBody) -> tuple[str, str, str] | None:
    match body:
        case RunStarted():
            return ("recovered", "resuming the interrupted run", "yellow") if body.recovered else None
        case Recovery():
            about = f" {body.call_id}" if body.call_id else ""
            return "recovery", f"{body.action.replace('_', ' ')}{about}", "yellow"
        case RunCancelling() | CancelScheduled():
            word = "cancelling" if isinstance(body, RunCancelling) else "cancels later"
            return word, f"{body.reason} by {body.by}", "yellow"
        case ModelSwitched():
            return (
                "model",
                " → ".join(f"{part.get('profile')}/{part.get('model')}" for part in (body.before, body.after)),
                "",
            )
        case SessionCompacted():
            word = "undone" if body.undo else f"{body.before_tokens} → {body.after_tokens} tokens"
            return "compacted", word, ""
        case SessionForked():
            return "forked", f"from {body.from_session_id} at {body.from_seq}", ""
        case SessionRenamed() | SessionArchived():
            return _naming(body)
        case WarningRaised():
            return "warning", f"{body.code}: {body.message}", "yellow"
        case Error() | HookFinished():
            return _report(body)
        case _:
            return None


def _report(body: Error | HookFinished) -> tuple[str, str, str]:
    if isinstance(body, Error):
        return "error", f"{body.code}: {body.message}", "red"
    said = f": {body.reason}" if body.reason else ""
    return "hook", f"{body.event} {body.hook} → {body.verdict} ({body.duration_ms} ms){said}", ""


def _naming(body: SessionRenamed | SessionArchived) -> tuple[str, str, str]:
    if isinstance(body, SessionRenamed):
        return "renamed", f"{body.title} by {body.by}", ""
    return ("archived" if body.archived else "unarchived"), f"by {body.by}", ""


def _details(approval: ApprovalRequired) -> str:
    shown = [
        f"  {key}: {value if isinstance(value, str) else msgspec.json.encode(value).decode()}"
        for key, value in approval.details.items()
        if value not in ("", None, {}, [])
    ]
    return "\n".join([*shown, f"  digest: {approval.digest}"])


def _first_lines(text: str) -> str:
    lines = text.split("\n")
    left = len(lines) - MAX_RESULT_LINES
    return text if left <= 0 else "\n".join([*lines[:MAX_RESULT_LINES], f"[{left} more lines]"])
