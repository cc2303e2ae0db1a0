"""The state of one run: a pure fold of its events, so that the live state and the one rebuilt from the log are equal.

A call goes requested → (awaiting → approved | denied) → claimed → finished; it is open until it has a result. Turns go
streaming → tool execution → streaming … → yielding; each of them can be followed by cancelled, which is final.
What a provider call reserved counts as spent until its usage is known, and permanently if that never arrives.
"""

from enum import StrEnum
from typing import Literal

from msgspec import Struct, json

from buddy.backends.hooks import explain, is_stricter
from buddy.protocol.actors import RuntimeActor, acts_on_session
from buddy.protocol.codes import Source
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
    StartedOptions,
    ThinkingToken,
    ToolCall,
    ToolClaimed,
    ToolResult,
    Usage,
    UserMessage,
)
from buddy.protocol.hook_events import HookVerdict
from buddy.protocol.shapes import ToolCallItem

CONTINUES = "continues"
"""The finish of an interim message of an external agent: its answer is still to come."""

Stage = Literal["requested", "called", "awaiting", "approved", "denied", "claimed"]


_PIECES = frozenset({AssistantToken, ThinkingToken})


class TurnState(StrEnum):
    """The phases of a turn."""

    STREAMING = "streaming"
    TOOL_EXECUTION = "tool_execution"
    YIELDING = "yielding"
    CANCELLED = "cancelled"


class Spending(Struct, frozen=True):
    """The most that a provider call can cost, as far as it is known in advance."""

    tokens: int
    cost_usd: float | None = None


class OpenCall(Struct):
    """A call that has no result yet: of our model, or of an external agent, which starts its own."""

    item: ToolCallItem
    stage: Stage = "requested"
    approval: ApprovalRequired | None = None
    digest: str | None = None
    by: str = ""
    comment: str = ""
    stop: bool = False
    source: Source = "unknown"
    is_claimed: bool = False
    """Whether it ever was: some agents ask again about a call that they may have begun."""
    hooked: HookVerdict | None = None
    """The strictest answer of the hooks that were asked before it, and why."""
    hooked_why: str = ""
    hook_stops: bool = False
    changed: str | None = None
    """The arguments that a hook put in place of those in `item`."""
    changed_by: tuple[int, str] = (-1, "")
    """Its place among the hooks that answered, and its name."""
    hook_answers: int = 0
    is_rechecked: bool = False
    """Whether the other hooks have judged the changed arguments."""

    @property
    def arguments(self) -> str:
        """What it would run with, as far as that is in the log."""
        return self.item.arguments if self.changed is None else self.changed

    @property
    def is_delegate(self) -> bool:
        return self.source == "delegate"

    @property
    def is_held(self) -> bool:
        """Whether it waits at its question, decided or not, and cannot have started."""
        return self.stage in ("awaiting", "approved", "denied") and not self.is_claimed


class Child(Struct):
    """A sub-agent whose call has no result yet."""

    started: ChildStarted
    finished: ChildFinished | None = None


class RunState(Struct):
    run_id: str
    options: StartedOptions
    started_ts: int
    recording: int = 0
    """The version of what it records for its replay, which decides what else it does."""
    turns: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    lost_tokens: int = 0
    cost_usd: float | None = None
    reserved: Spending | None = None
    tool_calls: int = 0
    last_done: tuple[str, str, str] = ("", "", "")
    repeated: int = 0
    open_calls: dict[str, OpenCall] = {}
    partial: bool = False
    answered: bool = False
    truncated: bool = False
    last_text: str = ""
    cancelling: str | None = None
    scheduled: CancelScheduled | None = None
    round: int = 1
    checks: dict[str, AcceptanceResult] = {}
    """The results of this round so far, by id."""
    last_checks: dict[str, AcceptanceResult] = {}
    """Those of the round before."""
    unscreened: dict[str, str] = {}
    """The user's messages, by id, that no hook has answered about."""
    stop_refusals: int = 0
    """How often a hook made the model continue."""
    children: dict[str, Child] = {}
    """The sub-agents of open calls, by call."""
    node: str | None = None
    questions: dict[str, QuestionAsked] = {}
    """Those that wait for an answer, by id."""

    @property
    def tokens(self) -> int:
        """Spent so far, with what was reserved for calls whose usage is unknown."""
        return self.input_tokens + self.output_tokens + self.lost_tokens

    @property
    def pending(self) -> dict[str, OpenCall]:
        """The calls that wait for a decision, by approval id."""
        return {
            call.approval.approval_id: call
            for call in self.open_calls.values()
            if call.approval and call.stage == "awaiting"
        }

    @property
    def working_children(self) -> list[ChildStarted]:
        """The sub-agents that have not finished."""
        return [child.started for child in self.children.values() if child.finished is None]

    @property
    def turn_state(self) -> TurnState:
        if self.cancelling is not None:
            return TurnState.CANCELLED
        if self.open_calls:
            return TurnState.TOOL_EXECUTION
        return TurnState.YIELDING if self.answered else TurnState.STREAMING

    def apply(self, body: EventBody) -> None:
        match body:
            case ModelRequest():
                self._reserve(body)
            case Usage():
                self._settle(body)
            case ToolResult() | ToolCall() | ToolClaimed():
                self._call(body)
            case AssistantMessage() | AssistantToken() | ThinkingToken() | AssistantRestart():
                self._reply(body)
            case ApprovalRequired() | ApprovalReceived() | ApprovalExpired() | HookFinished():
                self._decide(body)
            case UserMessage() | AcceptanceResult():
                self._accept(body)
            case ChildStarted() | ChildFinished() | QuestionAsked() | QuestionAnswered():
                self._within_call(body)
            case RunStarted() | RunCancelling() | CancelScheduled():
                self._follow(body)
            case (
                Informational()
                | SessionStarted()
                | RunComplete()
                | ApprovalPolicyChanged()
                | ModelSwitched()
                | SessionCompacted()
                | SessionForked()
                | FilesRestored()
            ):
                pass  # about the session, not the run

    def _within_call(self, body: ChildStarted | ChildFinished | QuestionAsked | QuestionAnswered) -> None:
        match body:
            case QuestionAsked():
                self.questions[body.question_id] = body
            case QuestionAnswered():
                self.questions.pop(body.question_id, None)
            case ChildStarted() | ChildFinished():
                self._delegate(body)

    def _follow(self, body: RunStarted | RunCancelling | CancelScheduled) -> None:
        match body:
            case RunStarted():
                self.options, self.recording = body.options, body.recording or 0
            case RunCancelling():
                self.cancelling = body.reason
            case CancelScheduled():
                self.scheduled = body

    def _reply(self, body: AssistantToken | ThinkingToken | AssistantRestart | AssistantMessage) -> None:
        self.partial = type(body) in _PIECES
        if isinstance(body, AssistantMessage):
            self.last_text = body.text
            self.truncated = body.truncated
            self.open_calls |= {item.call_id: OpenCall(item) for item in body.tool_calls}
            self.answered = not body.tool_calls and body.finish != CONTINUES

    def _accept(self, body: UserMessage | AcceptanceResult) -> None:
        """A message opens a turn; one of the acceptance check also opens its next round."""
        if isinstance(body, AcceptanceResult):
            self.checks[body.id] = body
            return
        self.answered = self.truncated = False
        self.open_calls |= {item.call_id: OpenCall(item) for item in body.insertions}
        if acts_on_session(body.by):
            self.unscreened[body.message_id] = body.text
        self.stop_refusals += body.by == RuntimeActor.HOOK
        if body.by == RuntimeActor.ACCEPTANCE:
            self.round += 1
            self.last_checks, self.checks = self.checks, {}

    def _hook(self, body: HookFinished) -> None:
        self.unscreened.pop(body.message_id or "", None)
        call = self.open_calls.get(body.call_id or "")
        if call is None:
            return
        call.hook_stops = call.hook_stops or body.stop
        if body.event != "PreToolUse":
            return
        if call.hooked is None or is_stricter(body.verdict, call.hooked):
            call.hooked, call.hooked_why = body.verdict, explain(body)
        call.is_rechecked = call.is_rechecked or body.again
        if body.input is not None:
            call.changed, call.changed_by = json.encode(body.input).decode(), (call.hook_answers, body.hook)
        call.hook_answers += 1

    def _call(self, body: ToolCall | ToolClaimed | ToolResult) -> None:
        if body.call_id is None:
            return
        call = self.open_calls.get(body.call_id)
        match body:
            case ToolCall():
                if call is not None:
                    call.stage, call.source = "called", body.source
                    self.tool_calls += 1
                elif body.source == "delegate":
                    item = ToolCallItem(body.call_id, body.tool_name, json.encode(body.args).decode())
                    self.open_calls[body.call_id] = OpenCall(item, "called", source="delegate")
                    self.tool_calls += 1
            case ToolClaimed():
                if call is not None:
                    call.stage, call.is_claimed = "claimed", True
            case ToolResult():
                self.children.pop(body.call_id, None)
                self._finish(self.open_calls.pop(body.call_id, None), body)

    def _reserve(self, request: ModelRequest) -> None:
        if request.purpose == "reply":
            self.turns = request.turn
        if request.attempt > 1:
            return  # the same call again: what was reserved for it still is
        lost = self.reserved
        if lost is not None:
            self.lost_tokens += lost.tokens
            if lost.cost_usd is not None:
                self.cost_usd = (self.cost_usd or 0.0) + lost.cost_usd
        tokens = request.reserved_tokens
        self.reserved = None if tokens is None else Spending(tokens, request.reserved_cost_usd)

    def _finish(self, call: OpenCall | None, result: ToolResult) -> None:
        if call is None:
            return
        done = call.item.name, call.item.arguments, result.text
        self.repeated = self.repeated + 1 if done == self.last_done else 1
        self.last_done = done

    def _settle(self, usage: Usage) -> None:
        self.reserved = None
        self.input_tokens += usage.input_tokens
        self.output_tokens += usage.output_tokens
        if usage.cost_usd is not None:
            self.cost_usd = (self.cost_usd or 0.0) + usage.cost_usd

    def _delegate(self, body: ChildStarted | ChildFinished) -> None:
        if isinstance(body, ChildStarted):
            self.children[body.call_id] = Child(body)
            return
        if body.call_id in self.children:
            self.children[body.call_id].finished = body
        self.input_tokens += body.usage.input_tokens
        self.output_tokens += body.usage.output_tokens
        self.tool_calls += body.usage.tool_calls
        if body.cost_usd is not None:
            self.cost_usd = (self.cost_usd or 0.0) + body.cost_usd

    def _decide(self, body: ApprovalRequired | ApprovalReceived | ApprovalExpired | HookFinished) -> None:
        match body:
            case HookFinished():
                self._hook(body)
            case ApprovalRequired():
                call = self.open_calls.get(body.call_id or "")
                if call:
                    call.stage, call.approval, call.digest = "awaiting", body, body.digest
            case ApprovalReceived():
                call = self._call_of(body.approval_id, body.call_id)
                if call:
                    call.stage = "approved" if body.decision == "approve" else "denied"
                    call.by, call.comment, call.stop = body.by, body.comment or "", body.stop
                    call.digest = body.digest or call.digest
            case ApprovalExpired():
                call = self._call_of(body.approval_id, None)
                if call:
                    call.stage, call.by, call.comment = "denied", RuntimeActor.TIMEOUT, "nobody decided in time"

    def _call_of(self, approval_id: str, call_id: str | None) -> OpenCall | None:
        if call_id is not None:
            return self.open_calls.get(call_id)
        for call in self.open_calls.values():
            if call.approval and call.approval.approval_id == approval_id:
                return call
        return None
