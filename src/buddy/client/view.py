"""The pure fold from events, as plain JSON, to what a front end shows.

It imports nothing heavy, because `exec` uses it. Duplicates change nothing; unknown events are ignored. After a gap,
what waits is what the snapshot says.
"""

from typing import TYPE_CHECKING, Literal, cast

if TYPE_CHECKING:
    from buddy.protocol.codes import Outcome, SessionState
    from buddy.protocol.json_events import (
        ApprovalRequired,
        BudgetState,
        ChildFinished,
        ChildStarted,
        Event,
        JsonEvent,
        ModelRequest,
        QuestionAsked,
        RunComplete,
        RunEvent,
        SessionSnapshot,
        Usage,
    )

    Finished = RunEvent[Literal["child_finished"], ChildFinished]
    ChildEvent = RunEvent[Literal["child_started"], ChildStarted] | Finished
    Use = Event[Literal["model_request"], ModelRequest] | Event[Literal["usage"], Usage] | Finished

_STATE_AFTER: "dict[Outcome, SessionState]" = {
    "success": "completed",
    "failed": "failed",
    "denied": "failed",
    "cancelled": "cancelled",
}


class RunView:
    """One run: its text so far, what it used, how it ended. `finished_text` is its last complete reply."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.prompt = ""
        self.text = ""
        self.thinking = ""
        self.finished_text = ""
        self.turns = 0
        self.input_tokens = 0
        self.output_tokens = 0
        self.cost_usd: float | None = None
        self.budget: BudgetState | None = None
        self.started_ts = 0
        self.ended_ts = 0
        self.complete: RunComplete | None = None

    def end_reply(self) -> None:
        self.text = self.thinking = ""

    def count(self, event: "Use") -> None:
        if event["type"] == "child_finished":
            self._count_child(event["payload"])
        elif event["type"] == "usage":
            self.turns = max(self.turns, event["payload"]["turn"])
            self._spend(event["payload"])
        else:
            self._request(event["payload"])

    def _request(self, request: "ModelRequest") -> None:
        if request.get("purpose", "reply") == "reply":
            self.turns = max(self.turns, request["turn"])
        if request.get("reservedCostUsd") is not None and self.cost_usd is None:
            self.cost_usd = 0.0  # the price is known, so nothing was spent yet

    def _count_child(self, finished: "ChildFinished") -> None:
        usage = finished["usage"]
        self.input_tokens += usage.get("inputTokens", 0)
        self.output_tokens += usage.get("outputTokens", 0)
        cost = finished.get("costUsd")
        if cost is not None:
            self.cost_usd = (self.cost_usd or 0.0) + cost

    def _spend(self, usage: "Usage") -> None:
        self.budget = usage["budget"]
        self.input_tokens += usage["inputTokens"]
        self.output_tokens += usage["outputTokens"]
        cost = usage.get("costUsd")
        if cost is not None:
            self.cost_usd = (self.cost_usd or 0.0) + cost


class View:
    def __init__(self) -> None:
        self.session_id = ""
        self.last_seq = 0
        self.state: SessionState = "idle"
        self.is_headless = False
        self.runs: dict[str, RunView] = {}
        self.approvals: dict[str, ApprovalRequired] = {}
        """What waits for a decision here; a sub-agent's question names its session and run."""
        self.children: dict[str, ChildStarted] = {}
        self.questions: dict[str, QuestionAsked] = {}
        self.active: str | None = None
        self.last_ts = 0
        self.is_after_gap = False
        """Whether the next snapshot says what waits: this view missed events, or has seen some that were lost."""

    def apply(self, event: "JsonEvent") -> bool:
        """Apply an event; False if it was applied before."""
        is_gap = event["type"] == "warning" and event["payload"]["code"] == "EVENT_GAP"
        if event["seq"] <= self.last_seq and not (is_gap and event["ts"] > self.last_ts):
            return False
        if is_gap:
            self.is_after_gap = event["seq"] != self.last_seq + 1  # otherwise it was announced to another client
        self.last_seq, self.last_ts = event["seq"], event["ts"]
        self._note_question(event)
        self._apply_to_session(event)
        run_id = event.get("runId")
        if run_id:
            self._apply_to_run(run_id, event)
        return True

    def _apply_to_session(self, event: "JsonEvent") -> None:
        match event["type"]:
            case "session_started":
                started = event["payload"]
                self.session_id, self.state = started["sessionId"], started["state"]
                self.is_headless = started["mode"] == "headless"
            case "session_snapshot":
                self._start_over(event["payload"])
            case "approval_required":
                self.approvals[event["payload"]["approvalId"]] = event["payload"]
                self.state = "awaiting_approval"
            case "approval_received" | "approval_expired":
                if self.approvals.pop(event["payload"]["approvalId"], None) and not self._has_own_approval:
                    self.state = "running"
            case "child_started" | "child_finished":
                self._follow_child(event)
            case "run_started":
                self.active, self.state = event["payload"]["runId"], "running"
            case "run_complete":
                self.active, self.approvals, self.children, self.questions = None, {}, {}, {}
                self.state = _STATE_AFTER[event["payload"]["outcome"]] if self.is_headless else "idle"
            case (
                "status"
                | "thinking_token"
                | "assistant_token"
                | "assistant_done"
                | "tool_call"
                | "tool_result"
                | "warning"
                | "error"
                | "user_message"
                | "run_cancelling"
                | "cancel_scheduled"
                | "model_request"
                | "assistant_restart"
                | "assistant_message"
                | "tool_claimed"
                | "tool_output"
                | "approval_policy_changed"
                | "usage"
                | "progress"
                | "phase"
                | "model_switched"
                | "session_resumed"
                | "session_compacted"
                | "session_forked"
                | "session_renamed"
                | "session_archived"
                | "files_changed"
                | "files_restored"
                | "acceptance_result"
                | "question_asked"
                | "question_answered"
                | "recovery"
                | "hook_finished"
            ):
                pass  # the session's state does not change

    def _start_over(self, snapshot: "SessionSnapshot") -> None:
        self.state, self.active = snapshot["state"], snapshot.get("activeRunId")
        pending = snapshot["pendingApproval"]
        if self.is_after_gap:
            self.is_after_gap = False
            self.approvals, self.children, self.questions = {}, {}, {}
        if pending is not None:
            self.approvals.setdefault(pending["approvalId"], cast("ApprovalRequired", pending))

    def apply_to_child(self, event: "JsonEvent") -> bool:
        """Apply an event of another session; True if it is a question of a sub-agent, or what became of one."""
        match event["type"]:
            case "approval_required" if event["payload"].get("parent"):
                place = {"sessionId": event["sessionId"], "runId": event["runId"]}
                self.approvals[event["payload"]["approvalId"]] = cast("ApprovalRequired", {**event["payload"], **place})
                return True
            case "approval_received" | "approval_expired":
                return self.approvals.pop(event["payload"]["approvalId"], None) is not None
            case "question_asked" | "question_answered":
                self._note_question(event)
                return True
            case _:
                return False

    def place_of(self, approval_id: str) -> tuple[str | None, str | None]:
        """The session and the run in which an approval is decided; None for those of this view."""
        asked = self.approvals.get(approval_id)
        return (asked.get("sessionId"), asked.get("runId")) if asked is not None else (None, None)

    @property
    def _has_own_approval(self) -> bool:
        return any(not asked.get("parent") for asked in self.approvals.values())

    def _follow_child(self, event: "ChildEvent") -> None:
        child = event["payload"]["sessionId"]
        if event["type"] == "child_started":
            self.children[child] = event["payload"]
            return
        self.children.pop(child, None)
        theirs = {
            key for key, asked in self.approvals.items() if child in (asked.get("sessionId"), asked.get("parent"))
        }
        self.approvals = {key: asked for key, asked in self.approvals.items() if key not in theirs}
        asked_here = {key: one for key, one in self.questions.items() if one.get("sessionId") != child}
        self.questions = asked_here

    def _note_question(self, event: "JsonEvent") -> None:
        match event["type"]:
            case "question_asked":
                self.questions[event["payload"]["questionId"]] = event["payload"]
            case "question_answered":
                self.questions.pop(event["payload"]["questionId"], None)
            case _:
                pass

    def _apply_to_run(self, run_id: str, event: "JsonEvent") -> None:
        match event["type"]:
            case "assistant_token":
                self._run(run_id).text += event["payload"]["text"]
            case "thinking_token":
                self._run(run_id).thinking += event["payload"]["text"]
            case "user_message":
                run = self._run(run_id)
                run.prompt = run.prompt or event["payload"]["text"]
            case "run_started":
                run = self._run(run_id)
                run.started_ts = run.started_ts or event["ts"]
            case "assistant_restart":
                self._run(run_id).end_reply()
            case "assistant_message":
                self._run(run_id).finished_text = event["payload"]["text"]
                self._run(run_id).end_reply()
            case "model_request" | "usage" | "child_finished":
                self._run(run_id).count(event)
            case "run_complete":
                run = self._run(run_id)
                run.complete, run.ended_ts = event["payload"], event["ts"]
            case (
                "session_started"
                | "child_started"
                | "session_snapshot"
                | "status"
                | "assistant_done"
                | "tool_call"
                | "tool_result"
                | "approval_required"
                | "approval_received"
                | "warning"
                | "error"
                | "run_cancelling"
                | "cancel_scheduled"
                | "tool_claimed"
                | "tool_output"
                | "approval_expired"
                | "approval_policy_changed"
                | "progress"
                | "phase"
                | "model_switched"
                | "session_resumed"
                | "session_compacted"
                | "session_forked"
                | "session_renamed"
                | "session_archived"
                | "files_changed"
                | "files_restored"
                | "acceptance_result"
                | "question_asked"
                | "question_answered"
                | "recovery"
                | "hook_finished"
            ):
                pass  # neither text nor use

    def _run(self, run_id: str) -> RunView:
        if run_id not in self.runs:
            self.runs[run_id] = RunView(run_id)
        return self.runs[run_id]
