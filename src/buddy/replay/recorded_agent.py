"""An external agent that does what it did: whatever its adapter recorded is input, and is recorded again.

Invariants: each of its events comes at its recorded place; what Buddy itself decides about them (approvals, claims,
results of calls that the end of the run closes, outcomes) is worked out again.
"""

import asyncio

from buddy.approvals.questions import Question
from buddy.backends.budget import BudgetExceeded
from buddy.backends.contract import Run
from buddy.backends.external.adapter import AgentOptions, ExternalBackend
from buddy.backends.external.contract import Agent
from buddy.backends.runstate import OpenCall
from buddy.errors import RunDenied, RunEnded
from buddy.protocol.envelopes import Event
from buddy.protocol.events import (
    AcceptanceResult,
    ApprovalReceived,
    ApprovalRequired,
    AssistantDone,
    AssistantMessage,
    AssistantRestart,
    Error,
    EventBody,
    HookFinished,
    ModelRequest,
    Progress,
    Recovery,
    RunCancelling,
    RunComplete,
    Status,
    ToolCall,
    ToolClaimed,
    ToolResult,
    Usage,
    UserMessage,
    WarningRaised,
)
from buddy.replay.recorded_model import failure_of, model_names
from buddy.replay.recorded_tools import intent_of
from buddy.replay.recording import MODEL, ReplayCursor, wait_for_ever
from buddy.targets.contract import Target

_ADAPTERS = (
    AssistantDone
    | AssistantMessage
    | AssistantRestart
    | ModelRequest
    | Progress
    | Status
    | ToolCall
    | Usage
    | WarningRaised
)


class RecordedExternal(ExternalBackend):
    """The adapter itself; the agent's work comes from the recording."""

    def __init__(self, runtime: str, session_id: str, cursor: ReplayCursor) -> None:
        model = model_names(cursor, switched=False)[1]
        super().__init__(
            runtime, session_id, _no_agent, AgentOptions(model=model or None, reports_cost=True), lambda: True
        )
        self._cursor = cursor

    def observe(self, seq: int, body: EventBody) -> None:
        super().observe(seq, body)
        self._cursor.advance(seq)

    def is_held(self, call: OpenCall) -> bool:
        """Earlier versions ended such a call with an unknown outcome."""
        recovered = (body for _, body in self._cursor.rest_of_run() if isinstance(body, Recovery))
        action = next((body.action for body in recovered if body.call_id == call.item.call_id), "")
        return super().is_held(call) and action != "unknown_outcome"

    async def work(self, run: Run, *, interrupted: bool) -> None:
        del interrupted
        self._cursor.begin_stream(MODEL)
        try:
            async with asyncio.TaskGroup() as asking:
                await _RecordedWork(run, self._cursor, asking).perform()
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from None


async def _no_agent(target: Target, project: str) -> Agent:
    raise NotImplementedError(f"a replay starts no agent ({target.name}, {project})")


class _RecordedWork:
    """What an agent did with one message."""

    def __init__(self, run: Run, cursor: ReplayCursor, asking: asyncio.TaskGroup) -> None:
        self._run = run
        self._cursor = cursor
        self._asking = asking
        self._asked: set[str] = set()
        self._asks: dict[str, list[asyncio.Task[None]]] = {}
        self._claimed: set[str] = set()
        self._denial: RunDenied | None = None

    async def perform(self) -> None:
        for event, body in self._cursor.rest_of_run():
            match body:
                case UserMessage() | AcceptanceResult():
                    break
                case HookFinished(event="Stop" | "UserPromptSubmit"):
                    break
                case Status() if body.source == "acceptance":
                    break
                case RunCancelling():
                    await wait_for_ever()
                case RunComplete():
                    await self._end(body)
                    break
                case Error():
                    await self._cursor.wait_before(event.seq)
                    raise failure_of(body)
                case _:
                    await self._replay(event, body)
        else:
            await wait_for_ever()  # the process ended in the middle of it
        for call_id in self._asks:
            self._stop_asking(call_id)

    async def _replay(self, event: Event, body: EventBody) -> None:
        match body:
            case ApprovalRequired() | ApprovalReceived() if body.approval_id not in self._asked:
                await self._cursor.wait_before(event.seq)
                self._asked.add(body.approval_id)
                ask = self._asking.create_task(self._ask(body))
                self._asks.setdefault(body.call_id or "", []).append(ask)
            case HookFinished() if body.event == "PermissionRequest":
                await self._start_asking(event)
            case HookFinished() if event.run_id is not None:
                await self._cursor.wait_before(event.seq)
                self._run.emit(body)
            case ToolResult() if body.outcome != "closed":
                await self._result(event.seq, body)
            case _ if isinstance(body, _ADAPTERS):
                await self._cursor.wait_before(event.seq)
                self._run.emit(body)
            case _:
                pass

    async def _start_asking(self, event: Event) -> None:
        """Hooks come before the question, or instead of it."""
        found = (
            body for _, body in self._cursor.after(event.seq) if isinstance(body, ApprovalRequired | ApprovalReceived)
        )
        if (approval := next(found, None)) is not None:
            await self._replay(event, approval)

    async def _result(self, seq: int, body: ToolResult) -> None:
        call_id = body.call_id or ""
        call = self._run.state.open_calls.get(call_id)
        if body.outcome == "rejected" and call is not None and call.stage == "awaiting":
            # The agent no longer waited for the decision: recording the result withdraws the question before it.
            self._stop_asking(call_id)
            seq -= 1
        await self._wait_decided(call_id)
        await self._cursor.wait_before(seq)
        self._run.emit(body)

    async def _ask(self, approval: ApprovalRequired | ApprovalReceived) -> None:
        """Have a call decided, and claim it where it was approved, before the agent learns of it."""
        call_id, digest = approval.call_id or "", approval.digest or ""
        name = self._run.state.open_calls[call_id].item.name
        try:
            ruling = await self._run.ask(Question(call_id, "privileged", intent_of(name, approval), digest, name))
        except RunDenied as denial:
            self._denial = denial  # the agent learns of it, and may have done more, before the run ends
            return
        seq, step = self._cursor.next_step(call_id)
        is_asked_again = isinstance(step, ApprovalRequired | ApprovalReceived)
        if ruling.approved and not is_asked_again and call_id not in self._claimed:
            self._claimed.add(call_id)
            claimed = step if isinstance(step, ToolClaimed) else None
            await self._cursor.wait_before(seq if claimed else 0)
            await self._run.claim(call_id, claimed.tier if claimed else "privileged", digest)

    async def _wait_decided(self, call_id: str) -> None:
        """An agent continues with a call once it knows the decision, and so after the claim."""
        if asks := self._asks.get(call_id):
            await asyncio.wait(asks)

    def _stop_asking(self, call_id: str) -> None:
        for ask in self._asks.get(call_id, ()):
            ask.cancel()

    async def _end(self, complete: RunComplete) -> None:
        """How the run ended, where nothing before it says so."""
        match complete.reason:
            case "interrupted":
                raise RunEnded("interrupted", complete.summary)
            case "budget_exceeded" if complete.limit is not None and complete.limit != "seconds":
                raise BudgetExceeded(complete.limit, complete.summary)
            case "denied":
                for call_id in self._asks:
                    await self._wait_decided(call_id)
                raise self._denial or RunDenied(complete.summary)
            case _ if not self._run.state.answered:
                await wait_for_ever()  # the time limit or a cancel ends it
            case _:
                pass
