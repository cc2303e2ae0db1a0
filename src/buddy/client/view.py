"""The pure fold from events to what a front end shows. Duplicates change nothing; unknown events are ignored."""

from msgspec import Struct

from buddy.protocol.codes import Outcome, SessionState
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
    EventBody,
    Informational,
    ModelRequest,
    ModelSwitched,
    RunCancelling,
    RunComplete,
    RunStarted,
    SessionCompacted,
    SessionForked,
    SessionSnapshot,
    SessionStarted,
    ThinkingToken,
    ToolCall,
    ToolClaimed,
    ToolResult,
    Usage,
    UserMessage,
)
from buddy.protocol.shapes import BudgetState

_STATE_AFTER: dict[Outcome, SessionState] = {
    "success": "completed",
    "failed": "failed",
    "denied": "failed",
    "cancelled": "cancelled",
}


class RunView(Struct):
    """One run: its text so far, what it used, how it ended. `finished_text` is its last complete reply."""

    run_id: str
    prompt: str = ""
    text: str = ""
    thinking: str = ""
    finished_text: str = ""
    turns: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None
    budget: BudgetState | None = None
    started_ts: int = 0
    ended_ts: int = 0
    complete: RunComplete | None = None


class View(Struct):
    session_id: str = ""
    last_seq: int = 0
    state: SessionState = "idle"
    is_headless: bool = False
    runs: dict[str, RunView] = {}
    approvals: dict[str, ApprovalRequired] = {}
    active: str | None = None

    def apply(self, event: Event, body: EventBody | None = None) -> bool:
        """Apply an event, decoded here unless its body is given; False if it was applied before."""
        if event.seq <= self.last_seq:
            return False
        self.last_seq = event.seq
        body = body or event.body()
        if body is not None:
            self._apply_body(event, body)
        return True

    def _apply_body(self, event: Event, body: EventBody) -> None:
        run = self._run(event.run_id) if event.run_id else None
        match body:
            case SessionStarted():
                self.session_id, self.state = body.session_id, body.state
                self.is_headless = body.mode == "headless"
            case SessionSnapshot():
                self.state, self.active = body.state, body.active_run_id
            case ApprovalRequired():
                self.approvals[body.approval_id] = body
                self.state = "awaiting_approval"
            case ApprovalReceived() | ApprovalExpired():
                if self.approvals.pop(body.approval_id, None) and not self.approvals:
                    self.state = "running"
            case RunStarted():
                self.active, self.state = body.run_id, "running"
            case RunComplete():
                self.active, self.approvals = None, {}
                self.state = _STATE_AFTER[body.outcome] if self.is_headless else "idle"
            case (
                Informational()
                | ThinkingToken()
                | AssistantToken()
                | ToolCall()
                | ToolResult()
                | UserMessage()
                | RunCancelling()
                | ModelRequest()
                | AssistantRestart()
                | AssistantMessage()
                | ToolClaimed()
                | ApprovalPolicyChanged()
                | Usage()
                | ModelSwitched()
                | SessionCompacted()
                | SessionForked()
                | AcceptanceResult()
            ):
                pass  # the session's state does not change
        if run is not None:
            _apply_to_run(run, event, body)

    def _run(self, run_id: str) -> RunView:
        if run_id not in self.runs:
            self.runs[run_id] = RunView(run_id)
        return self.runs[run_id]


def _apply_to_run(run: RunView, event: Event, body: EventBody) -> None:
    match body:
        case UserMessage():
            run.prompt = run.prompt or body.text
        case RunStarted():
            run.started_ts = run.started_ts or event.ts
        case AssistantToken():
            run.text += body.text
        case ThinkingToken():
            run.thinking += body.text
        case AssistantRestart():
            run.text = run.thinking = ""
        case AssistantMessage():
            run.finished_text, run.text, run.thinking = body.text, "", ""
        case ModelRequest() | Usage():
            _count(run, body)
        case RunComplete():
            run.complete, run.ended_ts = body, event.ts
        case (
            Informational()
            | SessionStarted()
            | ToolCall()
            | ToolResult()
            | ApprovalRequired()
            | ApprovalReceived()
            | RunCancelling()
            | ToolClaimed()
            | ApprovalExpired()
            | ApprovalPolicyChanged()
            | ModelSwitched()
            | SessionCompacted()
            | SessionForked()
            | AcceptanceResult()
        ):
            pass  # neither text nor use


def _count(run: RunView, body: ModelRequest | Usage) -> None:
    if isinstance(body, ModelRequest):
        run.turns = max(run.turns, body.turn if body.purpose == "reply" else 0)
    else:
        _spend(run, body)


def _spend(run: RunView, usage: Usage) -> None:
    run.turns, run.budget = max(run.turns, usage.turn), usage.budget
    run.input_tokens += usage.input_tokens
    run.output_tokens += usage.output_tokens
    if usage.cost_usd is not None:
        run.cost_usd = (run.cost_usd or 0.0) + usage.cost_usd
