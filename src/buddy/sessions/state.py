"""Where a session stands: a pure fold of its events. What is live and what is rebuilt from the log are equal."""

from msgspec import Struct

from buddy.backends.runstate import OpenCall, RunState
from buddy.protocol.codes import Outcome, Policy, SessionState
from buddy.protocol.envelopes import Event
from buddy.protocol.events import (
    TOLD_ONLY,
    ApprovalPolicyChanged,
    ApprovalReceived,
    AssistantMessage,
    EventBody,
    ModelSwitched,
    RunComplete,
    RunStarted,
    SessionCompacted,
    SessionStarted,
    Usage,
    UserMessage,
)
from buddy.protocol.shapes import ContextState

LEFT = frozenset(
    {
        "session_started",
        "user_message",
        "assistant_message",
        "run_complete",
        "approval_policy_changed",
        "approval_received",
        "session_compacted",
        "model_switched",
    }
)
"""The events from which something is left here when their run is over; beside them, the last `usage`."""


class SessionFold(Struct):
    started: SessionStarted | None = None
    started_seq: int = 0
    run: RunState | None = None
    outcome: Outcome | None = None
    runs: dict[str, str] = {}
    policy: Policy | None = None
    policy_expires_at: int | None = None
    granted: set[str] = set()
    profile: str | None = None
    model: str | None = None
    last_text: str = ""
    context: ContextState = ContextState(0, 1)
    saved: list[int] = []
    """The tokens that each compaction saved, the latest last; undoing one gives them back."""

    @property
    def state(self) -> SessionState:
        if self.run is not None:
            return "awaiting_approval" if self.run.pending else "running"
        if self.outcome is None or self.started is None or self.started.mode == "interactive":
            return "idle"
        return "completed" if self.outcome == "success" else "cancelled" if self.outcome == "cancelled" else "failed"

    @property
    def pending(self) -> dict[str, OpenCall]:
        return self.run.pending if self.run else {}

    def apply(self, event: Event, body: EventBody) -> None:  # noqa: C901 - one arm per event
        if type(body) in TOLD_ONLY:
            return
        match body:
            case SessionStarted():
                self.started, self.started_seq = body, event.seq
            case UserMessage() if event.run_id:
                self.runs.setdefault(body.message_id, event.run_id)
            case RunStarted() if self.run is None:
                self.run = RunState(body.run_id, body.options, event.ts)
            case RunComplete():
                self.run, self.outcome = None, body.outcome
            case AssistantMessage():
                self.last_text = body.text
            case Usage():
                self.context = body.context
            case ApprovalPolicyChanged():
                self.policy, self.policy_expires_at = body.policy, body.expires_at
            case ApprovalReceived() if body.scope == "session" and body.digest and body.decision == "approve":
                self.granted.add(body.digest)
            case SessionCompacted():
                self._compact(body)
            case ModelSwitched():
                self.profile, self.model = body.after.get("profile"), body.after.get("model")
            case _:
                pass
        if self.run is not None and event.run_id == self.run.run_id:
            self.run.apply(body)

    def _compact(self, body: SessionCompacted) -> None:
        self.context = ContextState(body.after_tokens, self.context.limit)
        if not body.undo:
            self.saved.append(body.before_tokens - body.after_tokens)
        elif self.saved:
            self.saved.pop()
