"""The events as plain JSON, for the type checker. Written by `make schema`; do not edit it.

Import it under `TYPE_CHECKING`: a client that works on plain JSON starts without the protocol's types.
"""

from typing import Any, Generic, Literal, NotRequired, TypedDict, TypeVar


class Payload(TypedDict):
    """`blobs` names the strings that were too long for a frame: field path → blob id."""

    blobs: NotRequired[dict[str, str] | None]


Kind = TypeVar("Kind", bound=str)
Content = TypeVar("Content", bound=Payload)


class _Envelope(TypedDict):
    v: str
    kind: Literal["event"]
    sessionId: str
    seq: int
    ts: int


class Event(_Envelope, Generic[Kind, Content]):
    type: Kind
    runId: NotRequired[str]
    payload: Content


class RunEvent(_Envelope, Generic[Kind, Content]):
    """An event that always belongs to a run."""

    type: Kind
    runId: str
    payload: Content


class Repo(TypedDict):
    rootPath: str
    currentBranch: NotRequired[str | None]
    defaultBranch: NotRequired[str | None]
    remoteUrl: NotRequired[str | None]


class BudgetLimits(TypedDict):
    maxTurns: NotRequired[int | None]
    maxCostUsd: NotRequired[float | None]
    maxTokens: NotRequired[int | None]
    maxSeconds: NotRequired[float | None]
    maxToolCalls: NotRequired[int | None]


class Endpoint(TypedDict):
    baseUrl: NotRequired[str | None]
    model: NotRequired[str | None]
    api: NotRequired[Literal["anthropic", "completions", "gemini", "responses"] | None]
    apiKey: NotRequired[str | None]
    contextLimit: NotRequired[int | None]
    keys: NotRequired[dict[str, str] | None]
    keyed: NotRequired[bool]


class SessionOptions(TypedDict):
    agentRuntime: NotRequired[str | None]
    profile: NotRequired[str | None]
    model: NotRequired[str | None]
    target: NotRequired[str | None]
    tmux: NotRequired[bool | str | None]
    sandbox: NotRequired[str | None]
    plan: NotRequired[bool]
    approvalPolicy: NotRequired[str | None]
    attended: NotRequired[bool]
    budget: NotRequired[BudgetLimits | None]
    systemPrompt: NotRequired[str | None]
    unsafeAgent: NotRequired[bool]
    endpoint: NotRequired[Endpoint | None]
    checkpoints: NotRequired[bool]
    tools: NotRequired[list[str] | None]


class Delegated(TypedDict):
    parent: str
    runId: str
    callId: str
    agent: str
    depth: NotRequired[int]


class SessionStarted(Payload):
    sessionId: str
    state: Literal["awaiting_approval", "cancelled", "completed", "failed", "idle", "running"]
    mode: Literal["headless", "interactive"]
    provider: str
    sandboxProvider: str
    repo: NotRequired[Repo | None]
    options: NotRequired[SessionOptions | None]
    metadata: NotRequired[dict[str, Any] | None]
    watch: NotRequired[str | None]
    user: NotRequired[str | None]
    node: NotRequired[str | None]
    delegated: NotRequired[Delegated | None]


class BootTime(TypedDict):
    boot: str
    ms: int


class ApprovalRequest(TypedDict):
    approvalId: str
    kind: str
    title: str
    summary: str
    details: dict[str, Any]
    options: list[Literal["approve", "deny"]]
    expiresAt: int
    callId: NotRequired[str | None]
    digest: NotRequired[str | None]
    sessionId: NotRequired[str | None]
    runId: NotRequired[str | None]
    expiresAtBoot: NotRequired[BootTime | None]
    parent: NotRequired[str | None]
    agent: NotRequired[str | None]


class SnapshotMeta(TypedDict):
    provider: str
    sandboxProvider: str


class SessionSnapshot(Payload):
    state: Literal["awaiting_approval", "cancelled", "completed", "failed", "idle", "running"]
    pendingApproval: ApprovalRequest | None
    meta: SnapshotMeta
    activeRunId: NotRequired[str | None]
    lastAssistantText: NotRequired[str | None]


class Status(Payload):
    source: str
    phase: str
    detail: NotRequired[str | None]


class ThinkingToken(Payload):
    text: str


class AssistantToken(Payload):
    text: str


class AssistantDone(Payload):
    messageId: str


class ToolCall(Payload):
    source: Literal["delegate", "github", "sandbox", "scratchpad", "unknown", "web-search"]
    toolName: str
    args: dict[str, Any]
    callId: NotRequired[str | None]
    target: NotRequired[str | None]


class ToolFailure(TypedDict):
    type: Literal["AUTH_FAILURE", "EDIT_CONTENT_NOT_FOUND", "EDIT_GUARD_BLOCKED", "EDIT_HASH_MISMATCH", "EXEC_NON_ZERO_EXIT", "EXEC_TIMEOUT", "FILE_NOT_FOUND", "RATE_LIMITED", "SANDBOX_UNREACHABLE", "STALE_FILE", "UNKNOWN", "UNKNOWN_OUTCOME", "WRITE_FAILED"]
    retryable: bool
    message: str
    detail: NotRequired[str | None]


class Attachment(TypedDict):
    blob: str
    mediaType: NotRequired[str]
    name: NotRequired[str]
    width: NotRequired[int]
    height: NotRequired[int]
    size: NotRequired[int]


class ToolResult(Payload):
    source: Literal["delegate", "github", "sandbox", "scratchpad", "unknown", "web-search"]
    toolName: str
    durationMs: int
    isError: bool
    text: str
    structuredError: ToolFailure | None
    callId: NotRequired[str | None]
    target: NotRequired[str | None]
    output: NotRequired[str | None]
    exitCode: NotRequired[int | None]
    outcome: NotRequired[Literal["closed", "denied", "failed", "rejected", "returned", "unknown"] | None]
    attachments: NotRequired[list[Attachment]]


class ApprovalRequired(Payload):
    approvalId: str
    kind: str
    title: str
    summary: str
    details: dict[str, Any]
    options: list[Literal["approve", "deny"]]
    expiresAt: int
    callId: NotRequired[str | None]
    digest: NotRequired[str | None]
    sessionId: NotRequired[str | None]
    runId: NotRequired[str | None]
    expiresAtBoot: NotRequired[BootTime | None]
    parent: NotRequired[str | None]
    agent: NotRequired[str | None]


class ApprovalReceived(Payload):
    approvalId: str
    decision: Literal["approve", "deny"]
    by: str
    callId: NotRequired[str | None]
    digest: NotRequired[str | None]
    comment: NotRequired[str | None]
    scope: NotRequired[Literal["always", "once", "session", "until"] | None]
    expiresAt: NotRequired[int | None]
    stop: NotRequired[bool]


class WarningRaised(Payload):
    code: str
    message: str
    detail: NotRequired[str | None]


class Error(Payload):
    code: str
    message: str
    retryable: bool
    detail: NotRequired[str | None]


class CriterionResult(TypedDict):
    id: str
    passed: bool
    exitCode: int
    output: str


class Acceptance(TypedDict):
    total: int
    passed: int
    results: list[CriterionResult]


class Headless(TypedDict):
    exitCodeHint: int


class RunComplete(Payload):
    runId: str
    outcome: Literal["cancelled", "denied", "failed", "success"]
    summary: str
    acceptance: NotRequired[Acceptance | None]
    headless: NotRequired[Headless | None]
    reason: NotRequired[str | None]
    limit: NotRequired[Literal["cost", "seconds", "tokens", "tool_calls", "turns"] | None]


class ToolCallItem(TypedDict):
    callId: str
    name: str
    arguments: str


class UserMessage(Payload):
    messageId: str
    text: str
    by: str
    steers: NotRequired[bool]
    redacted: NotRequired[int]
    asIs: NotRequired[bool]
    expanded: NotRequired[str | None]
    insertions: NotRequired[list[ToolCallItem]]
    attachments: NotRequired[list[Attachment]]


class Criterion(TypedDict):
    id: str
    check: str
    exitCode: NotRequired[int]
    description: NotRequired[str | None]


class StartedOptions(TypedDict):
    budget: BudgetLimits
    approvalPolicy: NotRequired[str | None]
    acceptanceCriteria: NotRequired[list[Criterion]]
    maxRounds: NotRequired[int]
    profile: NotRequired[str | None]
    model: NotRequired[str | None]
    target: NotRequired[str | None]
    sandbox: NotRequired[str | None]


class RunStarted(Payload):
    runId: str
    options: StartedOptions
    recovered: NotRequired[bool]
    recording: NotRequired[int | None]
    node: NotRequired[str | None]


class WaitingMessage(TypedDict):
    clientMessageId: str
    text: str
    by: str
    steers: NotRequired[bool]
    attachments: NotRequired[list[Attachment]]


class RunCancelling(Payload):
    reason: str
    by: str
    returned: NotRequired[list[WaitingMessage]]


class CancelScheduled(Payload):
    at: int
    reason: str
    by: str


class ModelRequest(Payload):
    turn: int
    profile: str
    model: str
    api: str
    attempt: int
    reason: NotRequired[str | None]
    waitMs: NotRequired[int | None]
    purpose: NotRequired[Literal["reply", "summary"]]
    reservedTokens: NotRequired[int | None]
    reservedCostUsd: NotRequired[float | None]


class AssistantRestart(Payload):
    reason: str


class AssistantMessage(Payload):
    messageId: str
    text: str
    toolCalls: list[ToolCallItem]
    finish: str
    truncated: bool
    opaque: NotRequired[dict[str, Any] | None]


class ToolClaimed(Payload):
    callId: str
    attempt: int
    tier: Literal["privileged", "read-only", "side-effecting"]
    target: str
    digest: str


class ToolOutput(Payload):
    callId: str
    stream: Literal["stderr", "stdout"]
    text: str


class ApprovalExpired(Payload):
    approvalId: str


class GrantedCall(TypedDict):
    approvalId: str
    digest: str
    summary: str


class ApprovalPolicyChanged(Payload):
    policy: Literal["all", "ask", "auto", "none", "until"]
    by: str
    expiresAt: NotRequired[int | None]
    plan: NotRequired[bool | None]
    revoked: NotRequired[str | None]
    granted: NotRequired[GrantedCall | None]


class ContextState(TypedDict):
    used: int
    limit: int
    system: NotRequired[int | None]
    summary: NotRequired[int | None]
    memory: NotRequired[int | None]
    tools: NotRequired[int | None]
    history: NotRequired[int | None]
    buffer: NotRequired[int | None]
    assumed: NotRequired[bool]


class BudgetState(TypedDict):
    turns: int
    tokens: int
    toolCalls: int
    seconds: float
    limits: BudgetLimits
    costUsd: NotRequired[float | None]


class Usage(Payload):
    turn: int
    inputTokens: int
    outputTokens: int
    context: ContextState
    budget: BudgetState
    cachedTokens: NotRequired[int | None]
    costUsd: NotRequired[float | None]
    estimated: NotRequired[bool]
    cacheWriteTokens: NotRequired[int | None]


class Progress(Payload):
    kind: Literal["provider_call", "rolling_summary", "tool_execution"]
    message: str
    turn: int
    maxTurns: int
    toolNames: NotRequired[list[str] | None]
    tiers: NotRequired[dict[str, Literal["privileged", "read-only", "side-effecting"]] | None]
    elapsedSeconds: NotRequired[float | None]


class Phase(Payload):
    name: str
    durationMs: float


class ModelSwitched(Payload):
    before: dict[str, str]
    after: dict[str, str]
    by: str
    endpoint: NotRequired[Endpoint | None]


class SessionResumed(Payload):
    by: str
    lastSeq: int


class SessionCompacted(Payload):
    beforeTokens: int
    afterTokens: int
    throughSeq: int
    summary: str
    by: str
    undo: NotRequired[bool]
    strategy: NotRequired[Literal["dropped", "lines", "model"] | None]
    inputTokens: NotRequired[int | None]
    outputTokens: NotRequired[int | None]
    costUsd: NotRequired[float | None]


class SessionForked(Payload):
    fromSessionId: str
    fromSeq: int
    by: str


class SessionRenamed(Payload):
    title: str
    by: str


class SessionArchived(Payload):
    archived: bool
    by: str


class AcceptanceResult(Payload):
    id: str
    passed: bool
    exitCode: int
    output: str
    round: int


class QuestionAsked(Payload):
    questionId: str
    source: str
    message: str
    mode: Literal["form", "url"]
    schema: NotRequired[dict[str, Any] | None]
    url: NotRequired[str | None]
    callId: NotRequired[str | None]
    sessionId: NotRequired[str | None]
    parent: NotRequired[str | None]
    agent: NotRequired[str | None]


class QuestionAnswered(Payload):
    questionId: str
    by: str
    action: Literal["accept", "cancel", "decline"]


class Recovery(Payload):
    action: Literal["continued", "reattached", "restarted", "taken_over", "unknown_outcome"]
    callId: NotRequired[str | None]
    message: NotRequired[str | None]
    fromNode: NotRequired[str | None]


class HookFinished(Payload):
    hook: str
    event: Literal["Notification", "PermissionRequest", "PostToolUse", "PreCompact", "PreToolUse", "SessionEnd", "SessionStart", "Stop", "UserPromptSubmit"]
    verdict: Literal["allow", "ask", "changed", "deny", "failed", "none"]
    durationMs: int
    callId: NotRequired[str | None]
    reason: NotRequired[str | None]
    owner: NotRequired[Literal["project", "user"] | None]
    input: NotRequired[dict[str, Any] | None]
    context: NotRequired[str | None]
    message: NotRequired[str | None]
    messageId: NotRequired[str | None]
    stop: NotRequired[bool]
    again: NotRequired[bool]


class ChangedFile(TypedDict):
    path: str
    change: Literal["added", "deleted", "modified"]
    added: int
    removed: int


class FilesChanged(Payload):
    checkpointId: str
    files: list[ChangedFile]
    callId: NotRequired[str | None]
    total: NotRequired[int | None]
    uncovered: NotRequired[str | None]
    overlaps: NotRequired[list[str]]


class FilesRestored(Payload):
    checkpointId: str
    files: list[ChangedFile]
    by: str
    undid: NotRequired[list[str]]
    callId: NotRequired[str | None]
    total: NotRequired[int | None]
    conflicts: NotRequired[list[str]]
    redo: NotRequired[bool]
    recovered: NotRequired[bool]
    uncovered: NotRequired[str | None]


class ChildStarted(Payload):
    sessionId: str
    callId: str
    agent: str
    budget: BudgetLimits


class ChildUsage(TypedDict):
    turns: NotRequired[int]
    inputTokens: NotRequired[int]
    outputTokens: NotRequired[int]
    toolCalls: NotRequired[int]


class ChildFinished(Payload):
    sessionId: str
    callId: str
    agent: str
    outcome: Literal["cancelled", "denied", "failed", "success"]
    usage: ChildUsage
    costUsd: NotRequired[float | None]
    reason: NotRequired[str | None]


JsonEvent = (
    Event[Literal["session_started"], SessionStarted]
    | Event[Literal["session_snapshot"], SessionSnapshot]
    | RunEvent[Literal["status"], Status]
    | RunEvent[Literal["thinking_token"], ThinkingToken]
    | RunEvent[Literal["assistant_token"], AssistantToken]
    | RunEvent[Literal["assistant_done"], AssistantDone]
    | RunEvent[Literal["tool_call"], ToolCall]
    | RunEvent[Literal["tool_result"], ToolResult]
    | RunEvent[Literal["approval_required"], ApprovalRequired]
    | RunEvent[Literal["approval_received"], ApprovalReceived]
    | Event[Literal["warning"], WarningRaised]
    | Event[Literal["error"], Error]
    | RunEvent[Literal["run_complete"], RunComplete]
    | Event[Literal["user_message"], UserMessage]
    | RunEvent[Literal["run_started"], RunStarted]
    | RunEvent[Literal["run_cancelling"], RunCancelling]
    | RunEvent[Literal["cancel_scheduled"], CancelScheduled]
    | Event[Literal["model_request"], ModelRequest]
    | RunEvent[Literal["assistant_restart"], AssistantRestart]
    | RunEvent[Literal["assistant_message"], AssistantMessage]
    | RunEvent[Literal["tool_claimed"], ToolClaimed]
    | RunEvent[Literal["tool_output"], ToolOutput]
    | RunEvent[Literal["approval_expired"], ApprovalExpired]
    | Event[Literal["approval_policy_changed"], ApprovalPolicyChanged]
    | Event[Literal["usage"], Usage]
    | Event[Literal["progress"], Progress]
    | Event[Literal["phase"], Phase]
    | Event[Literal["model_switched"], ModelSwitched]
    | Event[Literal["session_resumed"], SessionResumed]
    | Event[Literal["session_compacted"], SessionCompacted]
    | Event[Literal["session_forked"], SessionForked]
    | Event[Literal["session_renamed"], SessionRenamed]
    | Event[Literal["session_archived"], SessionArchived]
    | RunEvent[Literal["acceptance_result"], AcceptanceResult]
    | RunEvent[Literal["question_asked"], QuestionAsked]
    | RunEvent[Literal["question_answered"], QuestionAnswered]
    | Event[Literal["recovery"], Recovery]
    | Event[Literal["hook_finished"], HookFinished]
    | RunEvent[Literal["files_changed"], FilesChanged]
    | Event[Literal["files_restored"], FilesRestored]
    | RunEvent[Literal["child_started"], ChildStarted]
    | RunEvent[Literal["child_finished"], ChildFinished]
)
