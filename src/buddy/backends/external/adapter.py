"""An external agent as a backend, under our approvals, budgets, log and recovery.

Invariants: its permission requests are decided by our policy, rules and users, and claimed before it may proceed;
whatever ends a run interrupts the agent first; its session id is in the log before it works, so that after a crash the
next process resumes the same conversation and reports unknown outcomes; a question that was open keeps its id.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from msgspec import Struct
from msgspec.structs import replace

from buddy.approvals.digest import nonce_of
from buddy.backends.budget import Budget
from buddy.backends.contract import Compaction, ModelName, Run
from buddy.backends.external.contract import Agent, AgentRequest, Completion, Executor, SessionLost
from buddy.backends.external.event_recorder import EventRecorder
from buddy.backends.external.history import LASTING, LOST, SESSION, STARTING, History
from buddy.backends.external.permission_bridge import PermissionBridge
from buddy.backends.external.shown_images import Outgoing, left_out, show_images
from buddy.backends.interrupted import unknown_outcome
from buddy.backends.native.loaded_images import ReadBlob
from buddy.backends.runstate import OpenCall
from buddy.errors import BuddyError, ProviderError, RunEnded, ToolError, UserError
from buddy.protocol.events import (
    AssistantRestart,
    EventBody,
    Recovery,
    Status,
    ToolResult,
    WarningRaised,
)
from buddy.protocol.shapes import ToolFailure
from buddy.targets.cancellation import finish_despite_cancel
from buddy.targets.contract import Target
from buddy.tools.contract import Place

ASSUMED_WINDOW = 200_000
"""Used if an agent does not report its model's context window."""
PATIENCE = 2.0
"""How long an agent may take to stop after a cancel; then its process is ended."""

StartAgent = Callable[[Target, str], Awaitable[Agent]]


class AgentOptions(Struct, frozen=True):
    """The session options that concern an external agent."""

    plan: bool = False
    model: str | None = None
    instructions: str | None = None
    reports_cost: bool = False
    unsafe: bool = False
    plans_if_offered: bool = False
    """Whether only the agent itself can say that it has a mode that plans."""


class ExternalBackend:
    """Satisfies `backends.contract.Backend`; `start_agent` returns the running agent for a target and a project."""

    lasting = LASTING

    def __init__(
        self,
        name: str,
        session_id: str,
        start_agent: StartAgent,
        options: AgentOptions,
        has_room: Callable[[], bool],
        read_blob: ReadBlob | None = None,
    ) -> None:
        self.name = name
        self._session_id = session_id
        self._start_agent = start_agent
        self._options = options
        self._model = options.model
        self._has_room = has_room
        self._read_blob = read_blob
        self._history = History()
        self._executor: Executor | None = None

    def observe(self, seq: int, body: EventBody) -> None:  # noqa: ARG002 - the contract's
        self._history.observe(body)

    def model(self) -> ModelName:
        return ModelName(self.name, self._model or "", self.name.partition(":")[0], ASSUMED_WINDOW)

    async def switch(self, profile: str | None, model: str | None) -> ModelName:
        if profile is not None and profile != self.name:
            raise UserError(
                f"{self.name} has its own models and does not use profiles", hint="name one of its models instead"
            )
        self._model = model
        await self._close_executor()
        return self.model()

    async def compact(self) -> Compaction | None:
        """It compacts its own history."""
        return None

    async def is_priced(self, place: Place) -> bool:
        if not self._options.reports_cost:
            return False
        try:
            agent = await self._start_agent(place.target, place.root)
            return await agent.is_priced(self._model, place.root)
        except BuddyError:
            return True  # it cannot start either: the run says why

    async def close(self) -> None:
        await self._close_executor()

    async def verify(self, place: Place) -> None:
        """Refuse a planning session of an agent without a planning mode; other failures are left to the run."""
        if not (self._options.plan and self._options.plans_if_offered) or self._options.unsafe:
            return
        nonce = agent_nonce(self._session_id, 0)
        request = AgentRequest("", place.root, nonce, plan=True)
        with suppress(ProviderError, ToolError):
            agent = await self._start_agent(place.target, place.root)
            await (await agent.execute(request)).close()

    def permission_bridge(self, run: Run) -> PermissionBridge:
        """What answers the permission requests of the agent."""
        return PermissionBridge(run, self.name, self._has_room)

    async def execute(self, run: Run) -> None:
        interrupted = run.state.turns > 0 and not run.state.answered
        if run.state.partial:
            run.emit(AssistantRestart(reason="interrupted"))
        self._recover_calls(run)
        while not run.state.answered or await run.record_steering():
            await self.work(run, interrupted=interrupted)
            interrupted = False
        if run.state.truncated:
            raise RunEnded("truncated", "the agent's reply was cut off before it was complete")

    async def work(self, run: Run, *, interrupted: bool) -> None:
        """Have the agent handle the latest message; a replay substitutes what it did.

        `interrupted`: the agent had begun with it when its process died.
        """
        executor = await self._ready(run)
        text = self._history.message(interrupted=interrupted, held=tuple(run.state.open_calls.values()))
        images = self._history.images(interrupted=interrupted)
        outgoing = await show_images(text, images, executor, self._read_blob)
        bridge = self.permission_bridge(run)
        recorder = EventRecorder(run, self.model(), self._history.calls, bridge)
        await recorder.begin_turn()
        settled = False
        try:
            completion = await self._converse(executor, outgoing, recorder, bridge)
            settled = True
        finally:
            if not settled:
                await finish_despite_cancel(self._interrupt(executor))
        await recorder.finish(completion)
        if completion.reason == "error" and recorder.is_empty and outgoing.was_refused(completion.error):
            run.emit(left_out(self.name, outgoing, completion.error))
            await run.commit()
            await self._close_executor()
            return
        if completion.reason == "error":
            raise ProviderError(completion.error or f"{self.name} failed without giving a reason", retryable=False)
        if completion.reason == "cancelled":
            raise RunEnded("interrupted", f"{self.name} stopped before it was done")

    async def _converse(
        self, executor: Executor, outgoing: Outgoing, recorder: EventRecorder, bridge: PermissionBridge
    ) -> Completion:
        try:
            await outgoing.send(executor)
        except ProviderError as error:
            if not outgoing.was_refused(str(error)):
                raise
            return Completion("error", error=str(error))
        return await self._listen(executor, recorder, bridge)

    async def _listen(self, executor: Executor, recorder: EventRecorder, bridge: PermissionBridge) -> Completion:
        """Record what it does until the message is done; its permission requests are decided meanwhile."""
        try:
            async with asyncio.TaskGroup() as asking:
                async for event in executor.events():
                    if isinstance(event, Completion):
                        bridge.stop()
                        return event
                    await recorder.take(event, asking)
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from None
        code = await executor.wait()
        why = f": {executor.errors[-1]}" if executor.errors else ""
        raise ProviderError(f"{self.name} exited with code {code} while working{why}", retryable=False)

    async def _ready(self, run: Run) -> Executor:
        """The conversation, resumed from the log if there is one."""
        if self._executor is not None and not self._executor.is_closed and self._executor.can_continue:
            return self._executor
        await self._close_executor()
        Budget.of(run).check()
        await run.place.target.kill_orphans(agent_nonce(self._session_id, self._history.starts))
        run.emit(Status(source="delegate", phase=STARTING, detail=f"{self.name} on {run.place.target.name}"))
        await run.commit()
        nonce = agent_nonce(self._session_id, self._history.starts)
        try:
            agent = await self._start_agent(run.place.target, run.place.root)
            self._executor = await self._open_conversation(run, agent, nonce)
        except UserError as error:
            raise ProviderError(str(error), retryable=False, hint=error.hint) from error
        except ToolError as error:
            raise ProviderError(str(error), retryable=error.retryable) from error
        theirs = self._executor.backend_session_id
        if theirs != self._history.session_id:
            run.emit(Status(source="delegate", phase=SESSION, detail=theirs))
            await run.finish()
        return self._executor

    async def _open_conversation(self, run: Run, agent: Agent, nonce: str) -> Executor:
        request = AgentRequest(
            "",
            run.place.root,
            nonce,
            self._history.session_id,
            self._options.plan,
            self._model,
            self._options.instructions,
            self._options.unsafe,
        )
        try:
            return await agent.execute(request)
        except SessionLost as lost:
            run.emit(
                WarningRaised(
                    code=LOST,
                    message=f"{self.name} lost its session; it starts a new one and receives the earlier conversation",
                    detail=str(lost),
                )
            )
            return await agent.execute(replace(request, session_id=None))

    def is_held(self, call: OpenCall) -> bool:
        """Whether a call of an earlier process waits for the agent to ask again; a replay looks it up."""
        return call.is_held

    def _recover_calls(self, run: Run) -> None:
        """What was open when we crashed. A call that was claimed may have run until its agent was killed.

        One that waited at its question did not: its approval stays as it is until the agent, resumed, asks again.
        """
        for call in list(run.state.open_calls.values()):
            if self.is_held(call):
                run.emit(Recovery(action="continued", call_id=call.item.call_id))
                continue
            text = str(unknown_outcome(run, call))
            run.emit(
                ToolResult(
                    source="delegate",
                    tool_name=call.item.name,
                    duration_ms=0,
                    is_error=True,
                    text=text,
                    structured_error=ToolFailure("UNKNOWN_OUTCOME", False, text),
                    call_id=call.item.call_id,
                    target=run.place.target.name,
                    outcome="unknown",
                )
            )

    async def _interrupt(self, executor: Executor) -> None:
        """Ask it to stop, and end it if it does not."""
        try:
            async with asyncio.timeout(PATIENCE):
                await executor.cancel()
                async for event in executor.events():
                    if isinstance(event, Completion):
                        return
        except (TimeoutError, ProviderError):
            pass
        await self._close_executor()

    async def _close_executor(self) -> None:
        executor, self._executor = self._executor, None
        if executor is not None:
            await executor.close()


def agent_nonce(session_id: str, start: int) -> str:
    """The nonce of the processes of a session's nth agent start.

    Each start has its own, so late cleanup after an earlier start never kills the next one.
    """
    return nonce_of(session_id, f"agent.{start}")
