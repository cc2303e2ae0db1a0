"""Objects that requests and events share. Every field without a default is always on the wire."""

from typing import Annotated, Any, Literal, get_args

from msgspec import Meta, Struct

from buddy.protocol.basics import MAX_SECONDS
from buddy.protocol.codes import ErrorCode, Scope, SessionState, ToolErrorType, Verdict
from buddy.protocol.ids import ApprovalId, RunId, SessionId


class Shape(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A value on the wire: camelCase there, snake_case here; what equals its default is left out."""


Count = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(ge=1)]
Text = Annotated[str, Meta(min_length=1)]
Seconds = Annotated[float, Meta(gt=0, le=MAX_SECONDS)]


Code = Annotated[str, Meta(min_length=1, extra_json_schema={"enum": list(get_args(ErrorCode))})]
"""One of `ErrorCode` from this runtime; a client must be able to read the codes of a newer one."""


class ErrorInfo(Shape, frozen=True):
    code: Code
    message: Text
    retryable: bool
    detail: str | None = None


class Repo(Shape, frozen=True):
    root_path: Text
    current_branch: str | None = None
    default_branch: str | None = None
    remote_url: str | None = None


class Criterion(Shape, frozen=True):
    id: Text
    check: Text
    exit_code: int = 0
    description: str | None = None


class CriterionResult(Shape, frozen=True):
    id: str
    passed: bool
    exit_code: int
    output: str


class Acceptance(Shape, frozen=True):
    total: Count
    passed: Count
    results: tuple[CriterionResult, ...]


class AcceptanceOptions(Shape, frozen=True):
    max_rounds: Positive = 3


class Headless(Shape, frozen=True):
    exit_code_hint: Count


class Replay(Shape, frozen=True):
    from_seq: Positive
    to_seq: Count
    completed: bool
    gap: bool


class SessionSummary(Shape, frozen=True, omit_defaults=False):
    """A row of the list. What is not known is null: the title before the first message, the cost without a price, the
    context before the first reply. `tokens` and `cost_usd` are those of all runs, `waiting` counts open approvals,
    `parent` is the session that this one was forked from or, with `agent`, whose sub-agent it is. All of it is always
    on the wire."""

    session_id: SessionId
    state: SessionState
    updated_at: Count
    repo: Repo
    title: str | None = None
    mode: str | None = None
    last_seq: Count | None = None
    archived: bool = False
    cost_usd: float | None = None
    tokens: Count = 0
    context: "ContextState | None" = None
    waiting: Count = 0
    parent: SessionId | None = None
    agent: str | None = None


class SessionRow(SessionSummary, frozen=True):
    """A row that changed. `deleted`: the session no longer exists; all else is as it was."""

    deleted: bool = False


class ToolFailure(Shape, frozen=True):
    type: ToolErrorType
    retryable: bool
    message: str
    detail: str | None = None


class ToolCallItem(Shape, frozen=True):
    """A call as the model wrote it; `arguments` is its JSON text, byte for byte."""

    call_id: str
    name: str
    arguments: str


class BudgetLimits(Shape, frozen=True):
    max_turns: Positive | None = None
    max_cost_usd: Annotated[float, Meta(gt=0)] | None = None
    max_tokens: Positive | None = None
    max_seconds: Annotated[float, Meta(gt=0)] | None = None
    max_tool_calls: Positive | None = None


class BudgetState(Shape, frozen=True):
    """What a run has used so far, and its limits."""

    turns: Count
    tokens: Count
    tool_calls: Count
    seconds: Annotated[float, Meta(ge=0)]
    limits: BudgetLimits
    cost_usd: float | None = None


class ContextState(Shape, frozen=True):
    """How full the model's window is, and with what; the parts are counted here, `used` is reported by the server.
    While `assumed`, nobody knows the window, and `limit` is a default."""

    used: Count
    limit: Positive
    system: Count | None = None
    summary: Count | None = None
    memory: Count | None = None
    tools: Count | None = None
    history: Count | None = None
    buffer: Count | None = None
    assumed: bool = False


class RunOptions(Shape, frozen=True):
    """What a client may set for one run; the rest comes from the session.

    `as_is`: of the message, only registered secrets are redacted, not what merely looks like one.
    """

    approval_policy: str | None = None
    budget: BudgetLimits | None = None
    as_is: bool = False


class Endpoint(Shape, frozen=True):
    """The model's endpoint as a client's own environment names it; accepted on the owner's Unix socket only.

    `keys` are variables that profiles read their keys from. Keys are kept in memory: the recorded form has none, and
    `keyed` says that some were given.
    """

    base_url: str | None = None
    model: str | None = None
    api: Literal["completions", "responses", "anthropic", "gemini"] | None = None
    api_key: str | None = None
    context_limit: Positive | None = None
    keys: dict[str, str] | None = None
    keyed: bool = False

    def __repr__(self) -> str:
        return f"Endpoint(base_url={self.base_url!r}, model={self.model!r}, api={self.api!r})"


class AttachOptions(Shape, frozen=True):
    endpoint: Endpoint | None = None


class ModelInUse(Shape, frozen=True):
    """The model of a session, and the address of its server without credentials (empty if there is no server)."""

    profile: str
    model: str
    api: str
    base_url: str = ""


class SessionOptions(Shape, frozen=True):
    """An empty name of a target or an agent is refused: it must not mean this machine, or less confinement.

    `attended`: in a headless session with the policy `auto`, somebody answers what the sandbox does not cover.
    `unsafe_agent`: another agent is used although it cannot be held to plan mode or to a denial. Without `checkpoints`,
    nothing is kept to undo what its runs change. `tools`: the only tools that the native agent may use.
    """

    agent_runtime: Text | None = None
    profile: str | None = None
    model: str | None = None
    target: Text | None = None
    tmux: bool | str | None = None
    sandbox: Text | None = None
    plan: bool = False
    approval_policy: str | None = None
    attended: bool = False
    budget: BudgetLimits | None = None
    system_prompt: str | None = None
    unsafe_agent: bool = False
    endpoint: Endpoint | None = None
    checkpoints: bool = True
    tools: tuple[str, ...] | None = None


class Delegated(Shape, frozen=True):
    """How a sub-agent came about: the session and the call that started it; `depth` counts the delegations so far."""

    parent: SessionId
    run_id: RunId
    call_id: str
    agent: str
    depth: Positive = 1


class DecisionMade(Shape, frozen=True):
    """One line of the audit. For `policy`, `summary` is the policy; else it is what was decided on, perhaps cut."""

    session_id: SessionId
    seq: Positive
    ts: Count
    decision: Literal["approve", "deny", "expired", "policy"]
    by: str
    run_id: RunId | None = None
    approval_id: ApprovalId | None = None
    call_id: str | None = None
    digest: str | None = None
    tool: str | None = None
    target: str | None = None
    summary: str | None = None
    scope: Scope | None = None
    expires_at: Count | None = None
    comment: str | None = None


class Grant(Shape, frozen=True):
    """What needs no further approval in a session. `summary`: the call, or for `until` the rule, perhaps cut."""

    grant_id: ApprovalId
    session_id: SessionId
    scope: Literal["session", "until"]
    summary: str
    expires_at: Count | None = None


class GrantedCall(Shape, frozen=True):
    """A call that needs no further approval in its session, by the approval that granted it."""

    approval_id: ApprovalId
    digest: str
    summary: str


class BootTime(Shape, frozen=True):
    """A time on the boot clock: milliseconds since the machine was started; `boot` names that start."""

    boot: Text
    ms: Count


class ApprovalRequest(Shape, frozen=True):
    """A question that holds one tool call. `details` shows everything that will run; `digest` is bound to it.

    `expires_at_boot` is the same deadline on the boot clock: it holds when the wall clock is set back. A sub-agent's
    question names its `parent` session and its `agent`.
    """

    approval_id: ApprovalId
    kind: str
    title: str
    summary: str
    details: dict[str, Any]
    options: Annotated[tuple[Verdict, ...], Meta(min_length=1)]
    expires_at: Count
    call_id: str | None = None
    digest: str | None = None
    session_id: SessionId | None = None
    run_id: RunId | None = None
    expires_at_boot: BootTime | None = None
    parent: SessionId | None = None
    agent: str | None = None


class Attachment(Shape, frozen=True):
    """An image of a message or a result: its blob and its name. The rest is what its content says, whatever a client
    gave: the type, width and height in pixels, and bytes."""

    blob: Text
    media_type: str = ""
    name: str = ""
    width: Count = 0
    height: Count = 0
    size: Count = 0


class WaitingMessage(Shape, frozen=True):
    """A message that no run has yet; `steers`: it is for the next turn of the active one."""

    client_message_id: str
    text: str
    by: str
    steers: bool = False
    attachments: tuple[Attachment, ...] = ()


class SnapshotMeta(Shape, frozen=True):
    provider: str
    sandbox_provider: str


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
