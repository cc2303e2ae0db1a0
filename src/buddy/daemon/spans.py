"""Events as spans: a run, its turns, in each the model calls and the tool calls, named as OpenTelemetry's GenAI
conventions have it.

Invariants: a span's times are those of its events; every span that was started is ended, by its own event, by the end
of its parent, or as interrupted.
"""

import msgspec
from msgspec import Struct
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, set_span_in_context
from opentelemetry.util.types import AttributeValue

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
from buddy.protocol.shapes import BudgetLimits

AGENT = "buddy"

Attributes = dict[str, AttributeValue]


_READ_ONLY = frozenset({"read_file", "list_files", "grep", "glob", "time", "todo", "read_output", "capture-pane"})
_SIDE_EFFECTING = frozenset({"write_file", "edit_file", "fetch_url", "web_search"})


class _Trace(Struct):
    """The open spans of one run, and what it has used so far."""

    run: Span
    said: str = ""
    turn: Span | None = None
    turn_number: int = 0
    call: Span | None = None
    tools: dict[str, Span] = {}
    tiers: dict[str, str] = {}
    state: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    last_ts: int = 0


class Spans:
    def __init__(self, tracer: Tracer, *, captures: bool) -> None:
        self._tracer = tracer
        self._captures = captures
        self._traces: dict[str, _Trace] = {}
        self._said: dict[str, str] = {}

    def apply(self, event: Event, body: EventBody) -> None:
        run_id = event.run_id or ""
        if isinstance(body, UserMessage):
            self._said[run_id] = body.text
        elif isinstance(body, RunStarted):
            self._begin_run(event, body)
        trace = self._traces.get(run_id)
        if trace is None:
            return
        trace.last_ts = event.ts
        _enter(trace, event, body)
        match body:
            case ModelRequest():
                self._begin_call(trace, event, body)
                _enter(trace, event, body)
            case AssistantMessage() | Usage():
                self._end_call(trace, event, body)
            case ToolCall() | ToolClaimed() | ToolResult():
                self._tool(trace, event, body)
            case ApprovalRequired() | ApprovalReceived() | SessionCompacted():
                _annotate(trace, event, body)
            case RunComplete():
                self._end_run(trace, event, body)
                del self._traces[run_id]
            case (
                Informational()
                | SessionStarted()
                | ThinkingToken()
                | AssistantToken()
                | UserMessage()
                | RunStarted()
                | RunCancelling()
                | CancelScheduled()
                | ChildStarted()
                | ChildFinished()
                | AssistantRestart()
                | ApprovalExpired()
                | ApprovalPolicyChanged()
                | ModelSwitched()
                | SessionForked()
                | FilesRestored()
                | AcceptanceResult()
                | HookFinished()
                | QuestionAsked()
                | QuestionAnswered()
            ):
                pass  # neither a span nor an event of one

    def abandon(self) -> None:
        """End all open spans: this process sees no more of them."""
        for trace in self._traces.values():
            trace.run.set_attribute("buddy.interrupted", value=True)
            _close(trace, trace.last_ts)
            trace.run.end(_ns(trace.last_ts))
        self._traces.clear()

    # --- runs ---

    def _begin_run(self, event: Event, started: RunStarted) -> None:
        attributes: Attributes = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": AGENT,
            "gen_ai.conversation.id": event.session_id,
            "buddy.run.id": started.run_id,
            "buddy.run.recovered": started.recovered,
            **_limits(started.options.budget),
        }
        said = self._said.pop(started.run_id, "")
        if self._captures and said:
            attributes["gen_ai.input.messages"] = _messages("user", said)
        if (before := self._traces.pop(started.run_id, None)) is not None:
            _close(before, event.ts)
            before.run.end(_ns(event.ts))
        span = self._tracer.start_span(
            f"invoke_agent {AGENT}", kind=SpanKind.INTERNAL, attributes=attributes, start_time=_ns(event.ts)
        )
        self._traces[started.run_id] = _Trace(span, last_ts=event.ts)

    def _end_run(self, trace: _Trace, event: Event, complete: RunComplete) -> None:
        _close(trace, event.ts)
        trace.run.set_attributes(
            {
                "buddy.outcome": complete.outcome,
                "gen_ai.usage.input_tokens": trace.input_tokens,
                "gen_ai.usage.output_tokens": trace.output_tokens,
            }
        )
        if complete.outcome != "success":
            trace.run.set_attribute("error.type", complete.reason or complete.outcome)
            trace.run.set_status(Status(StatusCode.ERROR))
        trace.run.end(_ns(event.ts))

    # --- model calls ---

    def _begin_call(self, trace: _Trace, event: Event, request: ModelRequest) -> None:
        if request.attempt > 1 and trace.call is not None:
            retry: Attributes = {"buddy.attempt": request.attempt, "error.type": "retried"}
            trace.call.add_event("retry", retry, _ns(event.ts))
            return
        if trace.turn is None or request.turn != trace.turn_number:
            _close(trace, event.ts)
            trace.turn_number = request.turn
            trace.turn = self._begin(trace.run, f"turn {request.turn}", event.ts, {"buddy.turn": request.turn})
        elif trace.call is not None:
            trace.call.end(_ns(event.ts))
        attributes: Attributes = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": request.profile,
            "gen_ai.request.model": request.model,
            "buddy.api": request.api,
            "buddy.purpose": request.purpose,
        }
        trace.call = self._begin(trace.turn, f"chat {request.model}", event.ts, attributes, SpanKind.CLIENT)

    def _end_call(self, trace: _Trace, event: Event, body: AssistantMessage | Usage) -> None:
        if trace.call is None:
            return
        if isinstance(body, AssistantMessage):
            trace.call.set_attribute("gen_ai.response.finish_reasons", [body.finish])
            if self._captures:
                trace.call.set_attribute("gen_ai.output.messages", _messages("assistant", body.text))
            return
        trace.input_tokens += body.input_tokens
        trace.output_tokens += body.output_tokens
        used = {"gen_ai.usage.input_tokens": body.input_tokens, "gen_ai.usage.output_tokens": body.output_tokens}
        trace.call.set_attributes(used)
        if body.cached_tokens is not None:
            trace.call.set_attribute("gen_ai.usage.cache_read.input_tokens", body.cached_tokens)
        if body.cache_write_tokens is not None:
            trace.call.set_attribute("gen_ai.usage.cache_creation.input_tokens", body.cache_write_tokens)
        trace.call.end(_ns(event.ts))
        trace.call = None
        _settle(trace, body)

    # --- tool calls ---

    def _tool(self, trace: _Trace, event: Event, body: ToolCall | ToolClaimed | ToolResult) -> None:
        call_id = body.call_id or ""
        span = trace.tools.get(call_id)
        match body:
            case ToolCall():
                trace.tools[call_id] = self._begin_tool(trace, event, body)
            case ToolClaimed():
                if span is not None:
                    trace.tiers[call_id] = body.tier
            case ToolResult():
                if span is not None:
                    del trace.tools[call_id]
                    span.set_attribute("buddy.tool.tier", trace.tiers.pop(call_id, "") or _tier_of(body))
                    self._end_tool(span, event, body)

    def _begin_tool(self, trace: _Trace, event: Event, call: ToolCall) -> Span:
        attributes: Attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": call.tool_name,
            "gen_ai.tool.type": "function",
            "gen_ai.tool.call.id": call.call_id or "",
            "buddy.target": call.target or "",
        }
        if self._captures:
            attributes["gen_ai.tool.call.arguments"] = msgspec.json.encode(call.args).decode()
        return self._begin(trace.turn or trace.run, f"execute_tool {call.tool_name}", event.ts, attributes)

    def _end_tool(self, span: Span, event: Event, result: ToolResult) -> None:
        if result.exit_code is not None:
            span.set_attribute("buddy.exit_code", result.exit_code)
        if result.is_error:
            span.set_attribute("error.type", result.structured_error.type if result.structured_error else "UNKNOWN")
            span.set_status(Status(StatusCode.ERROR))
        if self._captures:
            span.set_attribute("gen_ai.tool.call.result", result.text)
        span.end(_ns(event.ts))

    def _begin(
        self, parent: Span, name: str, ts: int, attributes: Attributes, kind: SpanKind = SpanKind.INTERNAL
    ) -> Span:
        context = set_span_in_context(parent)
        return self._tracer.start_span(name, context, kind, attributes, start_time=_ns(ts))


def _enter(trace: _Trace, event: Event, body: EventBody) -> None:
    """Add a change of the state to the turn, or to the run between two turns."""
    match body:
        case ModelRequest() if trace.turn is not None and body.turn == trace.turn_number:
            state = "waiting_for_model"
        case ToolCall():
            state = "executing_tools"
        case ApprovalRequired():
            state = "awaiting_approval"
        case ApprovalReceived() if trace.state == "awaiting_approval":
            state = "executing_tools"
        case RunComplete():
            state = body.outcome
        case _:
            return
    if state != trace.state:
        changed: Attributes = {"buddy.state.from": trace.state or "started", "buddy.state.to": state}
        (trace.turn or trace.run).add_event("state_changed", changed, _ns(event.ts))
        trace.state = state


def _tier_of(result: ToolResult) -> str:
    """The tier of a call that was never claimed: it only read, or it was not started."""
    if result.tool_name in _SIDE_EFFECTING:
        return "side-effecting"
    return "read-only" if result.tool_name in _READ_ONLY or not result.is_error else "privileged"


def _annotate(trace: _Trace, event: Event, body: ApprovalRequired | ApprovalReceived | SessionCompacted) -> None:
    """Add a point in time to a span."""
    if isinstance(body, SessionCompacted):
        tokens: Attributes = {"buddy.tokens.before": body.before_tokens, "buddy.tokens.after": body.after_tokens}
        trace.run.add_event("session_compacted", tokens, _ns(event.ts))
        return
    span = trace.tools.get(body.call_id or "")
    if span is None:
        return
    if isinstance(body, ApprovalRequired):
        span.add_event("approval_required", {"buddy.approval.kind": body.kind}, _ns(event.ts))
    else:
        decided: Attributes = {"buddy.approval.decision": body.decision, "buddy.approval.by": body.by}
        span.add_event("approval_received", decided, _ns(event.ts))


def _settle(trace: _Trace, usage: Usage) -> None:
    """Set the budget's current state on the turn and on the run, whose last value wins."""
    budget, context = usage.budget, usage.context
    attributes: Attributes = {
        "buddy.budget.turns": budget.turns,
        "buddy.budget.tokens": budget.tokens,
        "buddy.budget.tool_calls": budget.tool_calls,
        "buddy.budget.seconds": budget.seconds,
        "buddy.context.used": context.used,
        "buddy.context.limit": context.limit,
        "buddy.context.utilization": round(context.used / context.limit, 4),
    }
    if budget.cost_usd is not None:
        attributes["buddy.budget.cost_usd"] = budget.cost_usd
    for span in (trace.turn, trace.run):
        if span is not None:
            span.set_attributes(attributes)


def _close(trace: _Trace, ts: int) -> None:
    """End what is open inside the run."""
    for span in (*trace.tools.values(), trace.call, trace.turn):
        if span is not None:
            span.end(_ns(ts))
    trace.tools, trace.call, trace.turn = {}, None, None


def _limits(limits: BudgetLimits) -> Attributes:
    named: dict[str, AttributeValue | None] = {
        "buddy.budget.max_turns": limits.max_turns,
        "buddy.budget.max_tokens": limits.max_tokens,
        "buddy.budget.max_tool_calls": limits.max_tool_calls,
        "buddy.budget.max_seconds": limits.max_seconds,
        "buddy.budget.max_cost_usd": limits.max_cost_usd,
    }
    return {name: limit for name, limit in named.items() if limit is not None}


def _messages(role: str, text: str) -> str:
    """One message, in the JSON format of the GenAI conventions."""
    return msgspec.json.encode([{"role": role, "parts": [{"type": "text", "content": text}]}]).decode()


def _ns(ts: int) -> int:
    return ts * 1_000_000
