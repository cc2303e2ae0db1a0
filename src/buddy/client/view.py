"""The pure fold from events to what a front end shows. Duplicates change nothing; unknown events are ignored."""

from msgspec import Struct

from buddy.protocol.codes import Outcome, SessionState
from buddy.protocol.envelopes import Event
from buddy.protocol.events import (
    ApprovalExpired,
    ApprovalReceived,
    ApprovalRequired,
    AssistantMessage,
    AssistantRestart,
    AssistantToken,
    EventBody,
    RunComplete,
    RunStarted,
    SessionSnapshot,
    SessionStarted,
    ThinkingToken,
    Usage,
    UserMessage,
)
from buddy.protocol.shapes import BudgetState

_RESTING: dict[Outcome, SessionState] = {
    "success": "completed",
    "failed": "failed",
    "denied": "failed",
    "cancelled": "cancelled",
}


class RunView(Struct):
    """One run: its text so far, what it used, how it ended."""

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

    def apply(self, event: Event) -> bool:
        """Take an event up; False where it was known already."""
        if event.seq <= self.last_seq:
            return False
        self.last_seq = event.seq
        body = event.body()
        if body is not None:
            self._take(event, body)
        return True

    def _take(self, event: Event, body: EventBody) -> None:
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
                self.state = _RESTING[body.outcome] if self.is_headless else "idle"
            case _:
                pass
        if run is not None:
            _follow(run, event, body)

    def _run(self, run_id: str) -> RunView:
        if run_id not in self.runs:
            self.runs[run_id] = RunView(run_id)
        return self.runs[run_id]


def _follow(run: RunView, event: Event, body: EventBody) -> None:
    match body:
        case UserMessage() if not run.prompt:
            run.prompt = body.text
        case RunStarted() if not run.started_ts:
            run.started_ts = event.ts
        case AssistantToken():
            run.text += body.text
        case ThinkingToken():
            run.thinking += body.text
        case AssistantRestart():
            run.text = run.thinking = ""
        case AssistantMessage():
            run.finished_text, run.text, run.thinking = body.text, "", ""
        case Usage():
            run.turns, run.budget = body.turn, body.budget
            run.input_tokens += body.input_tokens
            run.output_tokens += body.output_tokens
            if body.cost_usd is not None:
                run.cost_usd = (run.cost_usd or 0.0) + body.cost_usd
        case RunComplete():
            run.complete, run.ended_ts = body, event.ts
        case _:
            pass
