"""What can happen in a session: one frozen payload per event type, the seed's thirteen first.

The type on the wire is the class name in snake_case. A new event is added here and in `docs/protocol.md`.
"""

import re
from typing import Annotated, Any, Literal

from msgspec import Meta

from buddy.protocol.codes import Mode, Outcome, Policy, Scope, SessionState, Source, Tier, Verdict
from buddy.protocol.shapes import (
    Acceptance,
    ApprovalRequest,
    BudgetLimits,
    BudgetState,
    ContextState,
    Count,
    Criterion,
    Headless,
    Positive,
    Repo,
    SessionOptions,
    Shape,
    ToolCallItem,
    ToolFailure,
)


class Payload(Shape, frozen=True):
    """An event's payload. `blobs` names the strings that were too long for a frame: field path → blob id."""

    blobs: dict[str, str] | None = None


# --- the seed's thirteen -------------------------------------------------------------------------------------------


class SessionStarted(Payload, frozen=True, kw_only=True):
    session_id: str
    state: SessionState
    mode: Mode
    provider: str
    sandbox_provider: str
    repo: Repo | None = None
    options: SessionOptions | None = None
    metadata: dict[str, Any] | None = None
    watch: str | None = None


class SnapshotMeta(Shape, frozen=True):
    provider: str
    sandbox_provider: str


class SessionSnapshot(Payload, frozen=True, kw_only=True):
    state: SessionState
    pending_approval: ApprovalRequest | None
    meta: SnapshotMeta
    active_run_id: str | None = None
    last_assistant_text: str | None = None


class Status(Payload, frozen=True, kw_only=True):
    source: str
    phase: str
    detail: str | None = None


class ThinkingToken(Payload, frozen=True, kw_only=True):
    text: str


class AssistantToken(Payload, frozen=True, kw_only=True):
    text: str


class AssistantDone(Payload, frozen=True, kw_only=True):
    message_id: str


class ToolCall(Payload, frozen=True, kw_only=True):
    source: Source
    tool_name: str
    args: dict[str, Any]
    call_id: str | None = None
    target: str | None = None


class ToolResult(Payload, frozen=True, kw_only=True):
    """`text` is what the model is told; `output` is the blob with the whole output where that is longer."""

    source: Source
    tool_name: str
    duration_ms: Count
    is_error: bool
    text: str
    structured_error: ToolFailure | None
    call_id: str | None = None
    target: str | None = None
    output: str | None = None
    exit_code: int | None = None


class ApprovalRequired(ApprovalRequest, frozen=True, kw_only=True):
    blobs: dict[str, str] | None = None


class ApprovalReceived(Payload, frozen=True, kw_only=True):
    """Also records a decision by policy or rule, which nobody was asked for; `digest` binds it to its call.

    `expires_at` goes with scope `until`: so long the shown rule needs no further question.
    """

    approval_id: str
    decision: Verdict
    by: str
    call_id: str | None = None
    digest: str | None = None
    comment: str | None = None
    scope: Scope | None = None
    expires_at: Count | None = None
    stop: bool = False


class Warning(Payload, frozen=True, kw_only=True):  # noqa: A001 - the seed's word
    code: str
    message: str
    detail: str | None = None


class Error(Payload, frozen=True, kw_only=True):
    code: str
    message: str
    retryable: bool
    detail: str | None = None


class RunComplete(Payload, frozen=True, kw_only=True):
    """The last event of a run. `reason` says why a run failed: budget_exceeded, acceptance_failed, provider_error, …"""

    run_id: str
    outcome: Outcome
    summary: str
    acceptance: Acceptance | None = None
    headless: Headless | None = None
    reason: str | None = None


# --- beyond the seed's thirteen ------------------------------------------------------------------------------------


class UserMessage(Payload, frozen=True, kw_only=True):
    message_id: str
    text: str
    by: str


class StartedOptions(Shape, frozen=True, kw_only=True):
    """What belongs to the run and survives with it."""

    budget: BudgetLimits
    approval_policy: str | None = None
    acceptance_criteria: tuple[Criterion, ...] = ()
    max_rounds: Positive = 3
    profile: str | None = None
    model: str | None = None
    target: str | None = None
    sandbox: str | None = None


class RunStarted(Payload, frozen=True, kw_only=True):
    run_id: str
    options: StartedOptions
    recovered: bool = False


class RunCancelling(Payload, frozen=True, kw_only=True):
    reason: str
    by: str


class ModelRequest(Payload, frozen=True, kw_only=True):
    """A provider call is about to be made. What is reserved counts as spent until a `usage` settles it."""

    turn: Positive
    profile: str
    model: str
    api: str
    attempt: Positive
    reason: str | None = None
    wait_ms: Count | None = None
    purpose: Literal["reply", "summary"] = "reply"
    reserved_tokens: Count | None = None
    reserved_cost_usd: float | None = None


class AssistantRestart(Payload, frozen=True, kw_only=True):
    reason: str


class AssistantMessage(Payload, frozen=True, kw_only=True):
    """The whole reply. `opaque` holds what the provider wants back unmodified: field name → JSON value."""

    message_id: str
    text: str
    tool_calls: tuple[ToolCallItem, ...]
    finish: str
    truncated: bool
    opaque: dict[str, Any] | None = None


class ToolClaimed(Payload, frozen=True, kw_only=True):
    call_id: str
    attempt: Positive
    tier: Tier
    target: str
    digest: str


class ToolOutput(Payload, frozen=True, kw_only=True):
    call_id: str
    stream: Literal["stdout", "stderr"]
    text: str


class ApprovalExpired(Payload, frozen=True, kw_only=True):
    approval_id: str


class ApprovalPolicyChanged(Payload, frozen=True, kw_only=True):
    policy: Policy
    by: str
    expires_at: Count | None = None


class Usage(Payload, frozen=True, kw_only=True):
    turn: Positive
    input_tokens: Count
    output_tokens: Count
    context: ContextState
    budget: BudgetState
    cached_tokens: Count | None = None
    cost_usd: float | None = None
    estimated: bool = False


class Progress(Payload, frozen=True, kw_only=True):
    kind: Literal["provider_call", "tool_execution", "rolling_summary"]
    message: str
    turn: Positive
    max_turns: Positive
    tool_names: tuple[str, ...] | None = None


class Phase(Payload, frozen=True, kw_only=True):
    name: str
    duration_ms: Annotated[float, Meta(ge=0)]


class ModelSwitched(Payload, frozen=True, kw_only=True):
    before: dict[str, str]
    after: dict[str, str]
    by: str


class SessionResumed(Payload, frozen=True, kw_only=True):
    by: str
    last_seq: Count


class SessionCompacted(Payload, frozen=True, kw_only=True):
    """History up to `through_seq` is now represented by `summary`; `undo` takes the latest compaction back.

    `strategy` says how the summary came about; the tokens are those of the model that wrote it outside of a run.
    """

    before_tokens: Count
    after_tokens: Count
    through_seq: Count
    summary: str
    by: str
    undo: bool = False
    strategy: Literal["model", "lines", "dropped"] | None = None
    input_tokens: Count | None = None
    output_tokens: Count | None = None
    cost_usd: float | None = None


class SessionForked(Payload, frozen=True, kw_only=True):
    from_session_id: str
    from_seq: Count
    by: str


class AcceptanceResult(Payload, frozen=True, kw_only=True):
    id: str
    passed: bool
    exit_code: int
    output: str
    round: Positive


class Recovery(Payload, frozen=True, kw_only=True):
    action: Literal["continued", "restarted", "reattached", "unknown_outcome"]
    call_id: str | None = None
    message: str | None = None


EventBody = (
    SessionStarted
    | SessionSnapshot
    | Status
    | ThinkingToken
    | AssistantToken
    | AssistantDone
    | ToolCall
    | ToolResult
    | ApprovalRequired
    | ApprovalReceived
    | Warning
    | Error
    | RunComplete
    | UserMessage
    | RunStarted
    | RunCancelling
    | ModelRequest
    | AssistantRestart
    | AssistantMessage
    | ToolClaimed
    | ToolOutput
    | ApprovalExpired
    | ApprovalPolicyChanged
    | Usage
    | Progress
    | Phase
    | ModelSwitched
    | SessionResumed
    | SessionCompacted
    | SessionForked
    | AcceptanceResult
    | Recovery
)


_CAPITAL = re.compile(r"(?<!^)(?=[A-Z])")


def wire_name(body: type[Shape]) -> str:
    """`AssistantToken` → `assistant_token`."""
    return _CAPITAL.sub("_", body.__name__).lower()


TOLD_ONLY: frozenset[type[Shape]] = frozenset(
    {AssistantDone, Error, Phase, Progress, Recovery, SessionResumed, SessionSnapshot, Status, ToolOutput, Warning}
)
"""What only tells of something: nothing of a session's state or of our own agent's follows from it. What another agent
told of itself may be among it."""

EVENTS: dict[str, type[EventBody]] = {wire_name(body): body for body in EventBody.__args__}
EVENT_NAMES: dict[type[Shape], str] = {body: name for name, body in EVENTS.items()}
