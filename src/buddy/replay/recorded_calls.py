"""What a recording says of each tool call, gathered from its events."""

from collections.abc import Iterable, Sequence

from msgspec import Struct, json

from buddy.protocol.codes import Tier
from buddy.protocol.events import (
    ApprovalReceived,
    ApprovalRequired,
    AssistantMessage,
    Error,
    EventBody,
    Progress,
    ToolCall,
    ToolClaimed,
    ToolOutput,
    ToolResult,
)
from buddy.protocol.shapes import ToolCallItem
from buddy.sessions.fork import Entry


class RecordedCall(Struct):
    """One call. `ready_at` is the seq before which its result was known; `crash` is the bug that ended its run."""

    item: ToolCallItem
    called: ToolCall | None = None
    claimed: ToolClaimed | None = None
    asked: ApprovalRequired | None = None
    decided: ApprovalReceived | None = None
    result: ToolResult | None = None
    ready_at: int = 0
    outputs: list[tuple[int, ToolOutput]] = []
    crash: tuple[int, str] | None = None

    @property
    def digest(self) -> str:
        known = (self.claimed, self.decided, self.asked)
        return next((found.digest for found in known if found is not None and found.digest), "")

    @property
    def rejected(self) -> ToolResult | None:
        """Its result, where it could not even be prepared."""
        return self.result if self.result is not None and self.result.outcome == "rejected" else None


def calls_in(entries: Sequence[Entry]) -> dict[str, RecordedCall]:
    """Every call of a recording, by its id."""
    calls: dict[str, RecordedCall] = {}
    ready_at = 0
    for event, body in entries:
        # Adjacent results belong to calls that ran together: each of them was known before the first.
        ready_at = (ready_at or event.seq) if isinstance(body, ToolResult) else 0
        match body:
            case AssistantMessage():
                calls.update({item.call_id: RecordedCall(item) for item in body.tool_calls})
            case ToolCall() if body.source == "delegate" and body.call_id is not None:
                item = ToolCallItem(body.call_id, body.tool_name, json.encode(body.args).decode())
                calls.setdefault(body.call_id, RecordedCall(item, body))
            case Error() if body.code == "INTERNAL_ERROR":
                for call in calls.values():
                    if call.called is not None and call.result is None:
                        call.crash = event.seq, body.message
            case _:
                _add(calls, event.seq, body, ready_at)
    return calls


def _add(calls: dict[str, RecordedCall], seq: int, body: EventBody | None, ready_at: int) -> None:
    match body:
        case ToolCall() if body.call_id in calls:
            calls[body.call_id].called = body
        case ToolClaimed() if body.call_id in calls:
            calls[body.call_id].claimed = body
        case ApprovalRequired() if body.call_id in calls:
            calls[body.call_id].asked = body
        case ApprovalReceived() if body.call_id in calls:
            calls[body.call_id].decided = body
        case ToolOutput() if body.call_id in calls:
            calls[body.call_id].outputs.append((seq, body))
        case ToolResult() if body.call_id in calls:
            calls[body.call_id].result, calls[body.call_id].ready_at = body, ready_at
        case _:
            pass


def tiers_in(entries: Iterable[Entry]) -> dict[str, Tier]:
    """The tools that existed, each with its tier."""
    tiers: dict[str, Tier] = {}
    for _, body in entries:
        if isinstance(body, Progress):
            tiers.update(body.tiers or {})
    return tiers
