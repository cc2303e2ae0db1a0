"""The state of a session: a pure fold of its events. The live state and the one rebuilt from the log are equal."""

from collections.abc import Set as AbstractSet

from msgspec import Struct
from msgspec.structs import replace

from buddy.backends.runstate import OpenCall, RunState
from buddy.protocol.codes import Outcome, Policy, SessionState
from buddy.protocol.envelopes import Event
from buddy.protocol.events import (
    AcceptanceResult,
    ApprovalExpired,
    ApprovalPolicyChanged,
    ApprovalReceived,
    ApprovalRequired,
    AssistantMessage,
    AssistantRestart,
    AssistantToken,
    CancelScheduled,
    ChildFinished,
    ChildStarted,
    EventBody,
    FilesRestored,
    HookFinished,
    Informational,
    ModelRequest,
    ModelSwitched,
    QuestionAnswered,
    QuestionAsked,
    RunCancelling,
    RunComplete,
    RunStarted,
    SessionCompacted,
    SessionForked,
    SessionStarted,
    ThinkingToken,
    ToolCall,
    ToolClaimed,
    ToolResult,
    Usage,
    UserMessage,
)
from buddy.protocol.shapes import ContextState, SessionOptions

_OF_RUN_ALONE = frozenset({ModelRequest, ToolCall, ToolResult, AssistantToken, ThinkingToken})  # most events


class Granted(Struct, frozen=True):
    """The approval that granted something, and the event that recorded it."""

    approval_id: str
    seq: int


class SessionFold(Struct):
    started: SessionStarted | None = None
    started_seq: int = 0
    run: RunState | None = None
    outcome: Outcome | None = None
    runs: dict[str, str] = {}
    policy: Policy | None = None
    policy_expires_at: int | None = None
    lasting_policy: Policy | None = None
    """The policy that was set last and does not expire."""
    plan: bool | None = None
    """Whether plan mode was switched on or off; None if it is as the session was started."""
    grants: dict[str, Granted] = {}
    """What a person approved for the whole session, by the digest of the call."""
    profile: str | None = None
    model: str | None = None
    last_text: str = ""
    context: ContextState = ContextState(0, 1)
    opening: UserMessage | None = None
    """The message whose run has not been recorded as started yet."""
    saved: list[int] = []
    """The tokens that each compaction saved, the latest last; undoing one removes its entry."""

    @property
    def state(self) -> SessionState:
        if self.run is not None:
            return "awaiting_approval" if self.run.pending else "running"
        if self.outcome is None or self.started is None or self.started.mode == "interactive":
            return "idle"
        return "completed" if self.outcome == "success" else "cancelled" if self.outcome == "cancelled" else "failed"

    @property
    def is_planning(self) -> bool:
        """Whether the session is in plan mode, and only reads."""
        options = self.started.options if self.started else None
        return bool(options and options.plan) if self.plan is None else self.plan

    @property
    def granted(self) -> AbstractSet[str]:
        """The digests of the calls that need no further approval in this session."""
        return self.grants.keys()

    @property
    def pending(self) -> dict[str, OpenCall]:
        return self.run.pending if self.run else {}

    def become(self, other: "SessionFold") -> None:
        """Take over another state of the same session."""
        for name in self.__struct_fields__:
            setattr(self, name, getattr(other, name))

    def apply(self, event: Event, body: EventBody) -> None:
        if isinstance(body, Informational):
            return
        if type(body) not in _OF_RUN_ALONE:
            self._apply(event, body)
        run = self.run
        if run is not None and event.run_id == run.run_id:
            run.apply(body)

    def _apply(self, event: Event, body: EventBody) -> None:
        match body:
            case SessionStarted():
                self.started, self.started_seq = body, event.seq
            case UserMessage() | RunStarted() | RunComplete():
                self._follow_run(event, body)
            case AssistantMessage():
                self.last_text = body.text
            case Usage() | SessionCompacted():
                self._fill_context(body)
            case ApprovalPolicyChanged() | ApprovalReceived() | ModelSwitched():
                self._settle(body, event.seq)
            case (
                Informational()
                | ModelRequest()
                | ToolCall()
                | ToolResult()
                | AssistantToken()
                | ThinkingToken()
                | ApprovalRequired()
                | RunCancelling()
                | CancelScheduled()
                | AssistantRestart()
                | ToolClaimed()
                | ApprovalExpired()
                | SessionForked()
                | FilesRestored()
                | AcceptanceResult()
                | HookFinished()
                | ChildStarted()
                | ChildFinished()
                | QuestionAsked()
                | QuestionAnswered()
            ):
                pass  # affects only the run

    def _follow_run(self, event: Event, body: UserMessage | RunStarted | RunComplete) -> None:
        match body:
            case UserMessage():
                if event.run_id:
                    self.runs.setdefault(body.message_id, event.run_id)
                if self.run is None:
                    self.opening = body
            case RunStarted():
                if self.run is None:
                    self.run = RunState(body.run_id, body.options, event.ts)
                    if self.opening is not None:
                        self.run.apply(self.opening)
                self.opening = None
                self.run.node = body.node
            case RunComplete():
                self.run, self.outcome, self.opening = None, body.outcome, None

    def _settle(self, body: ApprovalPolicyChanged | ApprovalReceived | ModelSwitched, seq: int) -> None:
        """Settings that apply to the session from here on."""
        match body:
            case ApprovalPolicyChanged():
                self.policy, self.policy_expires_at = body.policy, body.expires_at
                self.plan = self.plan if body.plan is None else body.plan
                if body.policy != "until":
                    self.lasting_policy = body.policy
                if body.granted is not None:
                    self.grants[body.granted.digest] = Granted(body.granted.approval_id, seq)
                if body.revoked is not None:
                    kept = {digest: by for digest, by in self.grants.items() if by.approval_id != body.revoked}
                    self.grants = kept
            case ApprovalReceived():
                if body.scope == "session" and body.digest and body.decision == "approve":
                    self.grants[body.digest] = Granted(body.approval_id, seq)
            case ModelSwitched(endpoint=None):
                self.profile, self.model = body.after.get("profile"), body.after.get("model")
            case ModelSwitched():
                self.profile = self.model = None
                if self.started is not None:
                    options = replace(self.started.options or SessionOptions(), endpoint=body.endpoint)
                    self.started = replace(self.started, options=options)

    def _fill_context(self, body: Usage | SessionCompacted) -> None:
        if isinstance(body, Usage):
            self.context = body.context
        else:
            self._compact(body)

    def _compact(self, body: SessionCompacted) -> None:
        self.context = ContextState(body.after_tokens, self.context.limit)
        if not body.undo:
            self.saved.append(body.before_tokens - body.after_tokens)
        elif self.saved:
            self.saved.pop()
