"""What a client may ask for: the payload of each request and of its response. Their rows are in `request_table`."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Raw

from buddy.protocol import token_requests
from buddy.protocol.codes import Mode, Policy, Scope, SessionState, Verdict
from buddy.protocol.events import SessionSnapshot
from buddy.protocol.ids import ApprovalId, AttachToken, MessageId, RunId, SessionId
from buddy.protocol.node_requests import NodeInfo
from buddy.protocol.shapes import (
    AcceptanceOptions,
    ApprovalRequest,
    Attachment,
    AttachOptions,
    BudgetState,
    ContextState,
    Count,
    Criterion,
    DecisionMade,
    Grant,
    ModelInUse,
    Positive,
    Replay,
    Repo,
    RunOptions,
    Seconds,
    SessionOptions,
    SessionSummary,
    Shape,
    Text,
    ToolCallItem,
    WaitingMessage,
)

# --- of the Push protocol ------------------------------------------------------------------------------------------


class Hello(Shape, frozen=True):
    client_name: Text
    client_version: Text
    capabilities: tuple[str, ...]


class HelloReply(Shape, frozen=True):
    runtime_name: str
    runtime_version: str
    protocol_version: str
    capabilities: tuple[str, ...]
    sandbox: dict[str, str] | None = None
    config: str | None = None
    """The runtime's configuration file, empty if there is none; this and the next two are for the owner alone."""
    key_variables: tuple[str, ...] | None = None
    """The variables that its profiles read their keys from."""
    log: str | None = None
    """The log that it shares with other daemons, without the password; empty if its log is its own."""


class StartSession(Shape, frozen=True):
    mode: Mode
    provider: Text
    sandbox_provider: Text
    repo: Repo
    metadata: dict[str, Any] | None = None
    options: SessionOptions | None = None


class StartSessionReply(Shape, frozen=True):
    session_id: SessionId
    state: SessionState
    attach_token: AttachToken


class WatchSessions(Shape, frozen=True):
    """`query`: words, each of which occurs in the title, the directory, the branch or the id.

    Archived sessions are listed only with `archived`, and then alone; `all` lists both.
    """

    limit: Annotated[int, Meta(ge=1, le=200)] = 20
    root_path: str | None = None
    query: Annotated[str, Meta(max_length=1000)] | None = None
    state: SessionState | None = None
    archived: bool | Literal["all"] = False


class ListSessions(WatchSessions, frozen=True):
    """`cursor` is the `nextCursor` of the page before."""

    cursor: Annotated[str, Meta(max_length=100)] | None = None


class ListSessionsReply(Shape, frozen=True):
    """`next_cursor` is absent from the last page."""

    sessions: tuple[SessionSummary, ...]
    next_cursor: str | None = None


class AttachSession(Shape, frozen=True):
    session_id: SessionId
    last_seen_seq: Count
    attach_token: AttachToken | None = None
    options: AttachOptions | None = None


class AttachSessionReply(Shape, frozen=True):
    session_id: SessionId
    state: SessionState
    replay: Replay


class ResumeSession(AttachSession, frozen=True):
    """An alias of attach, with the state in the reply."""


class SendUserMessage(Shape, frozen=True):
    session_id: SessionId
    client_message_id: MessageId
    text: str
    acceptance_criteria: tuple[Criterion, ...] = ()
    options: RunOptions | None = None
    acceptance: AcceptanceOptions | None = None
    attachments: tuple[Attachment, ...] = ()


class SendUserMessageReply(Shape, frozen=True):
    run_id: RunId
    accepted: bool


class SubmitApproval(Shape, frozen=True):
    session_id: SessionId
    run_id: RunId
    approval_id: ApprovalId
    decision: Verdict
    comment: str | None = None
    scope: Scope = "once"
    stop: bool = False
    duration_seconds: Seconds | None = None


class CancelRun(Shape, frozen=True):
    """With `return_queue`, no waiting message starts a run afterwards: the reply gives them back."""

    session_id: SessionId
    run_id: RunId
    reason: str = "user_cancelled"
    after_seconds: Seconds | None = None
    return_queue: bool = False


class AcceptedReply(Shape, frozen=True):
    accepted: bool


class CancelRunReply(AcceptedReply, frozen=True):
    returned: tuple[WaitingMessage, ...] = ()


class Ping(Shape, frozen=True):
    pass


class PingReply(Shape, frozen=True):
    pong: bool
    ts: Count


# --- Buddy's own ---------------------------------------------------------------------------------------------------


class RenameSession(Shape, frozen=True):
    title: Text


class ArchiveSession(Shape, frozen=True):
    archived: bool


class SetApprovalPolicy(Shape, frozen=True):
    """What is absent stays; `plan` starts or ends plan mode, in which the session only reads."""

    policy: Policy | None = None
    duration_seconds: Seconds | None = None
    plan: bool | None = None


class SetApprovalPolicyReply(Shape, frozen=True):
    policy: Policy
    expires_at: Count | None = None
    plan: bool = False


class SwitchModel(Shape, frozen=True):
    profile: str | None = None
    model: str | None = None


class SwitchModelReply(ModelInUse, frozen=True):
    pass


class CompactSession(Shape, frozen=True):
    undo: bool = False


class CompactSessionReply(Shape, frozen=True):
    before_tokens: Count
    after_tokens: Count


class GetSnapshot(Shape, frozen=True):
    """`at_seq`: as it was after that event."""

    at_seq: Positive | None = None


class GetSnapshotReply(SessionSnapshot, frozen=True, kw_only=True):
    budget: BudgetState | None
    context: ContextState
    approvals: tuple[ApprovalRequest, ...]
    approval_policy: Policy | None = None
    model: ModelInUse | None = None
    tokens: Count | None = None
    cost_usd: float | None = None
    open_calls: tuple[ToolCallItem, ...] = ()


class ReadEvents(Shape, frozen=True):
    """With `before`, the last events before it, in order; `types` limits them to some types."""

    after: Count
    limit: Annotated[int, Meta(ge=1, le=1000)] = 500
    before: Positive | None = None
    types: Annotated[tuple[str, ...], Meta(max_length=64)] = ()


class ReadEventsReply(Shape, frozen=True):
    events: tuple[Raw, ...]
    last_seq: Count


class ReadBlob(Shape, frozen=True):
    blob: Text
    offset: Count = 0
    limit: Annotated[int, Meta(ge=1, le=262144)] = 32768
    encoding: Literal["text", "base64"] = "text"


class ReadBlobReply(Shape, frozen=True):
    """`data` is the part as base64, if that was requested; then `text` is empty."""

    text: str
    total: Count
    data: str | None = None


class ListApprovals(Shape, frozen=True):
    grants: bool = False


class ListApprovalsReply(Shape, frozen=True):
    approvals: tuple[ApprovalRequest, ...]
    grants: tuple[Grant, ...] = ()


class ListDecisions(Shape, frozen=True):
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100
    session_id: SessionId | None = None
    since: Annotated[int, Meta(ge=0, le=2**53 - 1)] = 0


class ListDecisionsReply(Shape, frozen=True):
    decisions: tuple[DecisionMade, ...]


class ForkSession(Shape, frozen=True):
    seq: Count


class ForkSessionReply(Shape, frozen=True):
    session_id: SessionId
    attach_token: AttachToken


class DeleteSession(Shape, frozen=True):
    pass


class DeleteSessionReply(Shape, frozen=True):
    deleted: bool


class PruneSession(Shape, frozen=True):
    before_seq: Positive


class PruneSessionReply(Shape, frozen=True):
    first_seq: Positive


MintToken = token_requests.MintToken
MintTokenReply = token_requests.MintTokenReply
RevokeToken = token_requests.RevokeToken
RevokeTokenReply = token_requests.RevokeTokenReply
ListTokens = token_requests.ListTokens
ListTokensReply = token_requests.ListTokensReply
TokenInfo = token_requests.TokenInfo


class TrustFolder(Shape, frozen=True):
    root_path: Text
    trusted: bool


class TrustFolderReply(Shape, frozen=True):
    hash: str


class CreateProject(Shape, frozen=True, rename={"root_path": "rootPath"}):
    name: Text
    root_path: Text
    agent_runtime: str | None = None


class CreateProjectReply(Shape, frozen=True):
    """`warning`: why sessions in the project cannot start as things are, and what to do."""

    project_id: str
    warning: str | None = None


class UpdateProject(Shape, frozen=True, rename={"project_id": "projectId"}):
    """What is absent stays; the agent runtime `default` is the server's."""

    project_id: Text
    name: str | None = None
    agent_runtime: str | None = None


class UpdateProjectReply(CreateProjectReply, frozen=True):
    pass


class DeleteProject(Shape, frozen=True, rename={"project_id": "projectId"}):
    project_id: Text


class DeleteProjectReply(Shape, frozen=True):
    deleted: bool


class ListProjects(Shape, frozen=True):
    pass


class ListProjectsReply(Shape, frozen=True):
    projects: tuple[dict[str, Any], ...]


class ProjectOptions(Shape, frozen=True):
    pass


class AgentRuntimes(Shape, frozen=True):
    available: tuple[str, ...]
    default: str


class ProjectOptionsReply(Shape, frozen=True, rename=None):
    agent_runtimes: AgentRuntimes


class DaemonStatus(Shape, frozen=True):
    pass


class DaemonStatusReply(Shape, frozen=True):
    version: str
    uptime: float
    sessions: Count
    runs: Count
    connections: Count
    config: str | None = None
    """The configuration file, empty if there is none; this, the next two and the cost are for the owner alone."""
    listen: str | None = None
    """The address of the WebSocket."""
    token_file: str | None = None
    """The file with the owner's token for it."""
    node: str | None = None
    fleet: tuple[NodeInfo, ...] = ()
    """The daemons that share its log, if it shares one."""
    cost_usd_today: float | None = None
    cost_usd_per_day: float | None = None


class Shutdown(Shape, frozen=True):
    pass
