"""What can happen in a session: one frozen payload per event type.

The type on the wire is the class name in snake_case, unless its facts name another. A new event is added here, with its
facts, and in `docs/protocol.md`; the type check then points at every fold that has to handle or to ignore it.
"""

import re
from collections.abc import Callable
from typing import Any, Literal

from buddy.protocol.child_events import ChildFinished, ChildStarted
from buddy.protocol.codes import (
    BudgetLimit,
    Mode,
    Outcome,
    Policy,
    Scope,
    SessionState,
    Source,
    Tier,
    ToolOutcome,
    Verdict,
)
from buddy.protocol.facts import EventFacts, Informational, Payload
from buddy.protocol.file_events import FilesChanged, FilesRestored
from buddy.protocol.hook_events import HookFinished
from buddy.protocol.ids import ApprovalId, RunId, SessionId
from buddy.protocol.message_events import UserMessage
from buddy.protocol.progress_events import Phase, Progress, Status, ToolOutput
from buddy.protocol.question_events import QuestionAnswered, QuestionAsked
from buddy.protocol.session_events import (
    CancelScheduled,
    Recovery,
    RunCancelling,
    SessionArchived,
    SessionForked,
    SessionRenamed,
    SessionResumed,
)
from buddy.protocol.shapes import (
    Acceptance,
    ApprovalRequest,
    Attachment,
    BudgetState,
    ContextState,
    Count,
    Delegated,
    Endpoint,
    GrantedCall,
    Headless,
    Positive,
    Repo,
    SessionOptions,
    Shape,
    SnapshotMeta,
    StartedOptions,
    ToolCallItem,
    ToolFailure,
)

# --- of the Push protocol ------------------------------------------------------------------------------------------


class SessionStarted(Payload, frozen=True, kw_only=True):
    facts = EventFacts(lasts=True, ends_reply=True)
    session_id: SessionId
    state: SessionState
    mode: Mode
    provider: str
    sandbox_provider: str
    repo: Repo | None = None
    options: SessionOptions | None = None
    metadata: dict[str, Any] | None = None
    watch: str | None = None
    user: str | None = None
    node: str | None = None
    delegated: Delegated | None = None


class SessionSnapshot(Informational, frozen=True, kw_only=True):
    state: SessionState
    pending_approval: ApprovalRequest | None
    meta: SnapshotMeta
    active_run_id: RunId | None = None
    last_assistant_text: str | None = None


class ThinkingToken(Payload, frozen=True, kw_only=True):
    facts = EventFacts(of_run=True, transient=True)
    text: str


class AssistantToken(Payload, frozen=True, kw_only=True):
    facts = EventFacts(of_run=True, transient=True)
    text: str


class AssistantDone(Informational, frozen=True, kw_only=True):
    facts = EventFacts(of_run=True, transient=True, copied=True, ends_step=True)
    message_id: str


class ToolCall(Payload, frozen=True, kw_only=True):
    facts = EventFacts(of_run=True, lasts_for_agents=True, copied=True, traced=True)
    source: Source
    tool_name: str
    args: dict[str, Any]
    call_id: str | None = None
    target: str | None = None


class ToolResult(Payload, frozen=True, kw_only=True):
    """`text` and the images are what the model sees; `output` is the blob with a complete output that is longer."""

    facts = EventFacts(of_run=True, lasts=True, copied=True, ends_step=True, traced=True)
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
    outcome: ToolOutcome | None = None
    attachments: tuple[Attachment, ...] = ()


class ApprovalRequired(ApprovalRequest, frozen=True, kw_only=True):
    facts = EventFacts(of_run=True, copied=True, traced=True, for_parent=True)
    blobs: dict[str, str] | None = None


class ApprovalReceived(Payload, frozen=True, kw_only=True):
    """Also records a decision by policy or rule, which nobody was asked for; `digest` binds it to its call.

    `expires_at` goes with scope `until`: so long the shown rule needs no further question.
    """

    facts = EventFacts(of_run=True, lasts=True, copied=True, decides=True, traced=True, for_parent=True)
    approval_id: ApprovalId
    decision: Verdict
    by: str
    call_id: str | None = None
    digest: str | None = None
    comment: str | None = None
    scope: Scope | None = None
    expires_at: Count | None = None
    stop: bool = False


class WarningRaised(Informational, frozen=True, kw_only=True):
    facts = EventFacts(name="warning", lasts_for_agents=True)
    code: str
    message: str
    detail: str | None = None


class Error(Informational, frozen=True, kw_only=True):
    facts = EventFacts(copied=True)
    code: str
    message: str
    retryable: bool
    detail: str | None = None


class RunComplete(Payload, frozen=True, kw_only=True):
    """The last event of a run. `reason` says why a run failed: budget_exceeded, acceptance_failed, provider_error, …"""

    facts = EventFacts(of_run=True, lasts=True, ends_reply=True, copied=True, ends_step=True, traced=True)
    run_id: RunId
    outcome: Outcome
    summary: str
    acceptance: Acceptance | None = None
    headless: Headless | None = None
    reason: str | None = None
    limit: BudgetLimit | None = None


# --- Buddy's own ---------------------------------------------------------------------------------------------------


RECORDING = 5
"""The version of what a run records for its replay; raised when a replay needs more, or decisions get another effect:
since 2, an approval that expires ends its run; since 3, a reply that is stopped leaves what was said of it; since 4,
calls of a session that was compacted often have the mark of their run; since 5, phases are summed over the run, and a
run that ends before its checks have run again reports their last results."""
INTERRUPTED = "interrupted"
"""`finish` of a reply that was stopped before it was complete."""


class RunStarted(Payload, frozen=True, kw_only=True):
    """`recording` is absent from runs that lack the facts which a replay needs."""

    facts = EventFacts(of_run=True, copied=True, ends_step=True, traced=True)
    run_id: RunId
    options: StartedOptions
    recovered: bool = False
    recording: Positive | None = None
    node: str | None = None


class ModelRequest(Payload, frozen=True, kw_only=True):
    """A provider call is about to be made. What is reserved counts as spent until a `usage` settles it."""

    facts = EventFacts(lasts_for_agents=True, copied=True, traced=True)
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
    facts = EventFacts(of_run=True, ends_reply=True, copied=True)
    reason: str


class AssistantMessage(Payload, frozen=True, kw_only=True):
    """The complete reply. `opaque` holds what the provider wants back unmodified: field name → JSON value."""

    facts = EventFacts(
        of_run=True, lasts=True, lasts_for_agents=True, ends_reply=True, copied=True, ends_step=True, traced=True
    )
    message_id: str
    text: str
    tool_calls: tuple[ToolCallItem, ...]
    finish: str
    truncated: bool
    opaque: dict[str, Any] | None = None


class ToolClaimed(Payload, frozen=True, kw_only=True):
    facts = EventFacts(of_run=True, lasts=True, copied=True, traced=True)
    call_id: str
    attempt: Positive
    tier: Tier
    target: str
    digest: str


class ApprovalExpired(Payload, frozen=True, kw_only=True):
    facts = EventFacts(of_run=True, copied=True, decides=True, for_parent=True)
    approval_id: ApprovalId


class ApprovalPolicyChanged(Payload, frozen=True, kw_only=True):
    facts = EventFacts(lasts=True, decides=True)
    policy: Policy
    by: str
    expires_at: Count | None = None
    plan: bool | None = None  # whether the session only reads from now on; None leaves that as it is
    revoked: ApprovalId | None = None  # the grant that ended; the policy is as before
    granted: GrantedCall | None = None  # a grant whose approval is about to be pruned; the policy is as before


class Usage(Payload, frozen=True, kw_only=True):
    facts = EventFacts(copied=True, ends_step=True, traced=True)
    turn: Positive
    input_tokens: Count
    output_tokens: Count
    context: ContextState
    budget: BudgetState
    cached_tokens: Count | None = None
    cost_usd: float | None = None
    estimated: bool = False
    cache_write_tokens: Count | None = None


class ModelSwitched(Payload, frozen=True, kw_only=True):
    facts = EventFacts(lasts=True, copied=True, ends_step=True)
    before: dict[str, str]
    after: dict[str, str]
    by: str
    endpoint: Endpoint | None = None
    """The environment's endpoint, if that changed; the model is again the one that the session was started with."""


class SessionCompacted(Payload, frozen=True, kw_only=True):
    """History up to `through_seq` is now represented by `summary`; `undo` takes the latest compaction back.

    `strategy` says how the summary came about; the tokens are those of the model that wrote it outside of a run.
    """

    facts = EventFacts(lasts=True, copied=True, ends_step=True, traced=True)
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


class AcceptanceResult(Payload, frozen=True, kw_only=True):
    facts = EventFacts(of_run=True, copied=True, ends_step=True)
    id: str
    passed: bool
    exit_code: int
    output: str
    round: Positive


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
    | WarningRaised
    | Error
    | RunComplete
    | UserMessage
    | RunStarted
    | RunCancelling
    | CancelScheduled
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
    | SessionRenamed
    | SessionArchived
    | AcceptanceResult
    | QuestionAsked
    | QuestionAnswered
    | Recovery
    | HookFinished
    | FilesChanged
    | FilesRestored
    | ChildStarted
    | ChildFinished
)
_CAPITAL = re.compile(r"(?<!^)(?=[A-Z])")


def wire_name(body: type[EventBody]) -> str:
    """`AssistantToken` → `assistant_token`."""
    return body.facts.name or _CAPITAL.sub("_", body.__name__).lower()


EVENTS: dict[str, type[EventBody]] = {wire_name(body): body for body in EventBody.__args__}
EVENT_NAMES: dict[type[Shape], str] = {body: name for name, body in EVENTS.items()}


def events_where(fact: Callable[[EventFacts], bool]) -> frozenset[str]:
    """The wire names of the events whose facts say so."""
    return frozenset(name for name, body in EVENTS.items() if fact(body.facts))


LASTING = events_where(lambda facts: facts.lasts)
