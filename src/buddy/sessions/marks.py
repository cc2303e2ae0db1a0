"""The points of a session that somebody may want to go to, such as messages, turns, approvals and errors."""

from collections.abc import Iterable, Iterator

from buddy.protocol.events import (
    ApprovalRequired,
    Error,
    EventBody,
    ModelRequest,
    Recovery,
    RunComplete,
    SessionCompacted,
    ToolResult,
    UserMessage,
)
from buddy.protocol.history_requests import Mark, MarkKind
from buddy.sessions.past import Entry

TYPES = (
    *("user_message", "model_request", "approval_required", "error", "tool_result", "run_complete"),
    *("session_compacted", "recovery"),
)
MAX_LABEL = 120
MAX_MARKS = 5000
"""The newest ones are listed: more would not fit into a message."""


def marks_of(entries: Iterable[Entry]) -> Iterator[Mark]:
    for event, body in entries:
        found = _mark_of(body)
        if found is not None:
            kind, label = found
            yield Mark(event.seq, kind, _one_line(label))


def _mark_of(body: EventBody | None) -> tuple[MarkKind, str] | None:
    match body:
        case UserMessage(text=text):
            return "message", text
        case ModelRequest(turn=turn, attempt=1):
            return "turn", f"turn {turn}"
        case ApprovalRequired(title=title, summary=summary):
            return "approval", f"{title}: {summary}"
        case Error(message=message):
            return "error", message
        case ToolResult(is_error=True, tool_name=name, text=text):
            return "error", f"{name}: {text}"
        case RunComplete(outcome="failed", summary=summary):
            return "error", summary
        case SessionCompacted(before_tokens=before, after_tokens=after, undo=undo):
            return "compaction", "compaction undone" if undo else f"compacted {before} to {after} tokens"
        case Recovery(action=action, message=message):
            return "recovery", message or action.replace("_", " ")
        case _:
            return None


def _one_line(text: str) -> str:
    words = " ".join(text[: MAX_LABEL * 4].split())
    return words if len(words) <= MAX_LABEL else words[: MAX_LABEL - 1] + "…"
