"""Records what an external agent does with one message as our events.

Invariants: each of its calls is announced once and ends with exactly one result, also if an interrupted agent makes it
again; text that came in pieces is not repeated when the complete message arrives.
"""

import asyncio
from typing import Any

from buddy.backends.budget import Budget, BudgetExceeded
from buddy.backends.contract import ModelName, Run
from buddy.backends.external.contract import (
    AgentEvent,
    Completion,
    Delta,
    Failure,
    Message,
    Permission,
    SystemNote,
    ToolEnded,
    ToolProgress,
    ToolStarted,
    UsageReport,
)
from buddy.backends.external.permission_bridge import PermissionBridge
from buddy.backends.native.bounds import shorten_middle
from buddy.backends.runstate import CONTINUES, OpenCall, Spending
from buddy.errors import OutcomeUnknown
from buddy.long_json import decode, encode
from buddy.models.contract import TokenUsage
from buddy.protocol.codes import BudgetLimit, ToolOutcome
from buddy.protocol.events import (
    AssistantDone,
    AssistantMessage,
    AssistantRestart,
    ModelRequest,
    Progress,
    Status,
    ToolCall,
    ToolResult,
    Usage,
    WarningRaised,
)
from buddy.protocol.shapes import ContextState, ToolFailure
from buddy.steps import take_turns


class EventRecorder:
    def __init__(self, run: Run, model: ModelName, known_calls: set[str], bridge: PermissionBridge) -> None:
        """`known_calls` are the ids of the session's calls so far; new ones are added."""
        self._run = run
        self._model = model
        self._known = known_calls
        self._bridge = bridge
        self._ours: dict[str, str] = {}
        self._started: dict[str, float] = {}
        self._message_id = ""
        self._pieces: list[str] = []
        self._messages = 0
        self._last_said = ""
        self.between_turns = False

    async def begin_turn(self) -> None:
        """The agent calls its model: checked against the budget and recorded before it works."""
        run = self._run
        Budget.of(run).check()
        turn, most = run.state.turns + 1, run.state.options.budget.max_turns or 50
        message = f"[{turn}/{most}] Waiting for {self._model.profile}"
        run.emit(Progress(kind="provider_call", message=message, turn=turn, max_turns=most))
        model = self._model
        run.emit(ModelRequest(turn=turn, profile=model.profile, model=model.model, api=model.api, attempt=1))
        await run.commit()
        self._messages = 0
        self.between_turns = False

    @property
    def is_empty(self) -> bool:
        """Whether the agent has neither said nor done anything."""
        return not (self._ours or self._pieces or self._messages)

    async def take(self, event: AgentEvent, asking: asyncio.TaskGroup) -> None:
        if self.between_turns and isinstance(event, Delta | Message | ToolStarted):
            await self.begin_turn()
        match event:
            case Delta():
                await self._delta(event)
            case Message():
                await self._complete_message(event)
            case ToolStarted() | ToolProgress() | ToolEnded():
                await self._tool(event)
            case Permission():
                await self._announce(event.call_id, event.name, event.args)
                self._bridge.take(event, self._ours[event.call_id], asking)
            case UsageReport():
                self._record_usage(event)
            case SystemNote():
                self._run.emit(Status(source="delegate", phase=self._model.profile, detail=event.text))
            case Failure():
                self._run.emit(WarningRaised(code="BACKEND_ERROR", message=event.message))
            case Completion():
                pass

    async def finish(self, completion: Completion) -> None:
        """The message is done: open calls are closed, and its last text is the answer."""
        for call in list(self._run.state.open_calls.values()):
            self._run.emit(self._unknown_result(call))
        text = "".join(self._pieces)
        if not text and completion.text != self._last_said:
            text = completion.text
        if completion.reason in ("completed", "truncated") or text:
            finish = "stop" if completion.reason == "completed" else completion.reason
            await self._say(text, finish, truncated=completion.reason == "truncated")
        await self._run.commit()

    # --- text -------------------------------------------------------------------------------------------------------

    async def _delta(self, event: Delta) -> None:
        if event.thinking:
            await self._run.stream("thinking_token", event.text)
            return
        if self._pieces and event.message_id != self._message_id:
            await self._flush()
        self._message_id = event.message_id
        self._pieces.append(event.text)
        await self._run.stream("assistant_token", event.text)

    async def _complete_message(self, event: Message) -> None:
        if not self._pieces and event.message_id == self._message_id != "" and event.text == self._last_said:
            return  # a call came between its pieces and the complete message
        if self._pieces and event.message_id != self._message_id:
            await self._flush()
        said = "".join(self._pieces)
        self._message_id = event.message_id
        if not event.text.startswith(said):
            self._run.emit(AssistantRestart(reason="the agent corrected itself"))
            said = ""
        self._pieces = [event.text]
        if len(event.text) > len(said):
            await self._run.stream("assistant_token", event.text[len(said) :])

    async def _flush(self) -> None:
        if self._pieces:
            await self._say("".join(self._pieces), CONTINUES)

    async def _say(self, text: str, finish: str, *, truncated: bool = False) -> None:
        run = self._run
        tail = f".{self._messages}" if self._messages else ""
        message_id = f"asst_{run.run_id.removeprefix('run_')}.{max(run.state.turns, 1)}{tail}"
        said = AssistantMessage(message_id=message_id, text=text, tool_calls=(), finish=finish, truncated=truncated)
        await run.scrub_ahead(said)
        run.emit(said)
        run.emit(AssistantDone(message_id=message_id))
        self._messages += 1
        self._last_said = text
        self._pieces = []

    # --- tool calls -------------------------------------------------------------------------------------------------

    async def _announce(self, theirs: str, name: str, args: dict[str, Any]) -> None:
        if theirs in self._ours:
            return
        await self._flush()
        if (held := await self._find_held(name, args)) is not None:
            self._ours[theirs] = held.item.call_id
            self._started[held.item.call_id] = self._run.seconds()
            return
        Budget.of(self._run).reserve_tool_call()
        call_id, tail = theirs, 1
        while call_id in self._known:
            tail += 1
            call_id = f"{theirs}.{tail}"
        self._known.add(call_id)
        self._ours[theirs] = call_id
        self._started[call_id] = self._run.seconds()
        target = self._run.place.target.name
        body = ToolCall(source="delegate", tool_name=name, args=args, call_id=call_id, target=target)
        await self._run.scrub_ahead(body)
        self._run.emit(body)

    async def _find_held(self, name: str, args: dict[str, Any]) -> OpenCall | None:
        """The same call from before an interruption, whose question may still be open, or decided by now."""
        open_calls = self._run.state.open_calls.values()
        held = [call for call in open_calls if call.is_held and call.item.name == name]
        mine = set(self._ours.values())
        candidates = [call for call in held if call.item.call_id not in mine]
        if not candidates:
            return None
        text = await take_turns(encode(args))
        wanted = [await take_turns(decode(text)), await self._run.scrub_long(text.decode())]
        for call in candidates:
            if call.item.arguments in wanted or await take_turns(decode(call.item.arguments)) in wanted:
                return call
        return None

    async def _tool(self, event: ToolStarted | ToolProgress | ToolEnded) -> None:
        match event:
            case ToolStarted():
                await self._announce(event.call_id, event.name, event.args)
            case ToolProgress():
                if event.call_id in self._ours:
                    await self._run.stream_output(self._ours[event.call_id], "stdout", event.text)
            case ToolEnded():
                await self._result(event)

    async def _result(self, event: ToolEnded) -> None:
        call = self._run.state.open_calls.get(self._ours.get(event.call_id, ""))
        if call is None:
            return
        full, stored = await self._run.scrub_long(_result_text(event, call)), None
        text = shorten_middle(full)
        if text is not full:
            stored = await self._run.store(full)
            text = shorten_middle(full, output=stored)
        failure, outcome = None, "returned"
        if event.is_error and call.stage == "denied":
            failure, outcome = ToolFailure("AUTH_FAILURE", False, full[:200]), "denied"
        elif event.is_error:
            failure, outcome = ToolFailure("UNKNOWN", False, full[:200]), "failed"
        result = self._result_of(call, text, outcome, failure, stored)
        await self._run.scrub_ahead(result)
        self._run.emit(result)
        await self._run.hooks.after_call(call, result)
        self.between_turns = not self._run.state.open_calls

    def _unknown_result(self, call: OpenCall) -> ToolResult:
        """The result of a call whose end the agent never reported."""
        if call.stage == "denied":
            text = _denial(call)
            return self._result_of(call, text, "denied", ToolFailure("AUTH_FAILURE", False, text))
        if call.is_held:
            text = "not run: the decision is no longer needed"
            return self._result_of(call, text, "rejected", ToolFailure("UNKNOWN", False, text))
        text = str(OutcomeUnknown(f"{self._model.profile} did not report how this call ended"))
        return self._result_of(call, text, "unknown", ToolFailure("UNKNOWN_OUTCOME", False, text))

    def _result_of(
        self, call: OpenCall, text: str, outcome: ToolOutcome, failure: ToolFailure | None, stored: str | None = None
    ) -> ToolResult:
        call_id = call.item.call_id
        started = self._started.get(call_id, self._run.seconds())
        return ToolResult(
            source="delegate",
            tool_name=call.item.name,
            duration_ms=max(0, round((self._run.seconds() - started) * 1000)),
            is_error=failure is not None,
            text=text,
            structured_error=failure,
            call_id=call_id,
            target=self._run.place.target.name,
            output=stored,
            outcome=outcome,
        )

    # --- usage ------------------------------------------------------------------------------------------------------

    def _record_usage(self, event: UsageReport) -> None:
        run, limit = self._run, event.context_limit or self._model.context_limit
        used = event.context_used if event.context_used is not None else event.input_tokens + event.output_tokens
        usage = TokenUsage(event.input_tokens, event.output_tokens, event.cached_tokens, event.cost_usd)
        run.emit(
            Usage(
                turn=max(run.state.turns, 1),
                input_tokens=usage.input_tokens,
                output_tokens=usage.output_tokens,
                cached_tokens=usage.cached_tokens,
                cost_usd=usage.cost_usd,
                context=ContextState(used, limit),
                budget=Budget.of(run).after(usage),
            )
        )
        if not Budget.of(run).fits(Spending(0, 0.0)):
            over: BudgetLimit = "cost" if Budget.of(run).fits(Spending(0, None)) else "tokens"
            raise BudgetExceeded(over, f"{self._model.profile} has used up the budget of tokens or cost")


def _result_text(event: ToolEnded, call: OpenCall) -> str:
    """What the agent reports; of a denied call, who denied it and why, because some agents always blame the user."""
    if not event.is_error or call.stage != "denied" or (call.comment and call.comment in event.text):
        return event.text
    return _denial(call)


def _denial(call: OpenCall) -> str:
    return f"denied by {call.by}: {call.comment}" if call.comment else f"denied by {call.by}"
