"""Where one run stands: a pure fold of its events, so that what is live and what is rebuilt from the log are equal.

A call goes requested → (awaiting → approved | denied) → claimed → finished; it is open until it has a result.
"""

from typing import Literal

from msgspec import Struct

from buddy.protocol.events import (
    AcceptanceResult,
    ApprovalExpired,
    ApprovalReceived,
    ApprovalRequired,
    AssistantMessage,
    AssistantRestart,
    AssistantToken,
    EventBody,
    ModelRequest,
    RunCancelling,
    RunStarted,
    StartedOptions,
    ThinkingToken,
    ToolCall,
    ToolClaimed,
    ToolResult,
    Usage,
    UserMessage,
)
from buddy.protocol.shapes import ToolCallItem

Stage = Literal["requested", "called", "awaiting", "approved", "denied", "claimed"]


class OpenCall(Struct):
    """A call of the model that has no result yet."""

    item: ToolCallItem
    stage: Stage = "requested"
    approval: ApprovalRequired | None = None
    digest: str | None = None
    by: str = ""
    comment: str = ""
    stop: bool = False


class RunState(Struct):
    run_id: str
    options: StartedOptions
    started_ts: int
    turns: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None
    tool_calls: int = 0
    open_calls: dict[str, OpenCall] = {}
    partial: bool = False
    answered: bool = False
    truncated: bool = False
    last_text: str = ""
    cancelling: str | None = None
    round: int = 1
    checks: dict[str, AcceptanceResult] = {}

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    @property
    def pending(self) -> dict[str, OpenCall]:
        """The calls that wait for a decision, by approval id."""
        return {
            call.approval.approval_id: call
            for call in self.open_calls.values()
            if call.approval and call.stage == "awaiting"
        }

    def apply(self, body: EventBody) -> None:  # noqa: C901 - one arm per event, nothing nested
        match body:
            case UserMessage():
                self.answered = self.truncated = False
                if body.by == "acceptance":
                    self.round += 1
                    self.checks = {}
            case RunStarted():
                self.options = body.options
            case ModelRequest():
                self.turns = body.turn
            case AssistantToken() | ThinkingToken():
                self.partial = True
            case AssistantRestart():
                self.partial = False
            case AssistantMessage():
                self.partial = False
                self.last_text = body.text
                self.truncated = body.truncated
                self.open_calls = {item.call_id: OpenCall(item) for item in body.tool_calls}
                self.answered = not body.tool_calls
            case Usage():
                self._settle(body)
            case ToolCall() if body.call_id in self.open_calls:
                self.open_calls[body.call_id].stage = "called"
                self.tool_calls += 1
            case ToolClaimed() if body.call_id in self.open_calls:
                self.open_calls[body.call_id].stage = "claimed"
            case ToolResult() if body.call_id is not None:
                self.open_calls.pop(body.call_id, None)
            case ApprovalRequired() | ApprovalReceived() | ApprovalExpired():
                self._decide(body)
            case RunCancelling():
                self.cancelling = body.reason
            case AcceptanceResult():
                self.checks[body.id] = body
            case _:
                pass

    def _settle(self, usage: Usage) -> None:
        self.input_tokens += usage.input_tokens
        self.output_tokens += usage.output_tokens
        if usage.cost_usd is not None:
            self.cost_usd = (self.cost_usd or 0.0) + usage.cost_usd

    def _decide(self, body: ApprovalRequired | ApprovalReceived | ApprovalExpired) -> None:
        match body:
            case ApprovalRequired():
                call = self.open_calls.get(body.call_id or "")
                if call:
                    call.stage, call.approval, call.digest = "awaiting", body, body.digest
            case ApprovalReceived():
                call = self._call_of(body.approval_id, body.call_id)
                if call:
                    call.stage = "approved" if body.decision == "approve" else "denied"
                    call.by, call.comment, call.stop = body.by, body.comment or "", body.stop
                    call.digest = body.digest or call.digest
            case ApprovalExpired():
                call = self._call_of(body.approval_id, None)
                if call:
                    call.stage, call.by, call.comment = "denied", "timeout", "nobody decided in time"

    def _call_of(self, approval_id: str, call_id: str | None) -> OpenCall | None:
        if call_id is not None:
            return self.open_calls.get(call_id)
        for call in self.open_calls.values():
            if call.approval and call.approval.approval_id == approval_id:
                return call
        return None
