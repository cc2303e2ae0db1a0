"""One conversation with its own Droid process, reported as events.

Invariants: the work on what was sent ends with exactly one completion, unless the process ends first, and then
the events end; a question of Droid's is answered once and only with what was decided; what a person said with a denial
reaches the model, as Droid itself stops at a denial without telling it.
"""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

import msgspec

from buddy.backends.droid import wire
from buddy.backends.droid.event_mapper import EventMapper
from buddy.backends.droid.permissions import CombinedAnswer
from buddy.backends.droid.rpc import DroidExited, DroidRpc, RequestRefused
from buddy.backends.droid.turns import Turns
from buddy.backends.external.contract import (
    AgentEvent,
    AgentRequest,
    Completion,
    Message,
    PermissionAnswer,
    SessionLost,
    SystemNote,
)
from buddy.backends.external.event_channel import EventChannel
from buddy.errors import ProviderError
from buddy.targets.programs import Program

OPEN_SECONDS = 60.0
CLOSE_SECONDS = 2.0
NOT_FOUND = -32004
_SUCCESSFUL = ("completed", "permission_rejected", "spec_handoff")


class DroidSession(EventChannel):
    """Satisfies `Executor`."""

    def __init__(self, program: Program, *, plan: bool) -> None:
        super().__init__()
        self.backend_session_id = ""
        self.is_closed = False
        self._program = program
        self._plan = plan
        self._rpc = DroidRpc(program, self.errors.append)
        self._turns = Turns()
        self._mapper = EventMapper()
        self._pending: set[str | int | None] = set()
        """The requests of Droid's that wait for an answer."""
        self._undelivered: list[str] = []
        """What the model has to be told before the work is over."""
        self._is_cancelling = False
        self._code = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._listening = asyncio.create_task(self._listen())

    async def open(self, request: AgentRequest, machine_id: str) -> None:
        """Start a session or resume the named one."""
        settings = {"interactionMode": "spec" if request.plan else "auto", "autonomyLevel": "off"}
        if request.model:
            settings["modelId"] = request.model
        try:
            if request.session_id is None:
                await self._begin(request, machine_id, settings)
            else:
                await self._resume(request.session_id, settings)
        except DroidExited:
            code = await self.wait()
            why = f": {self.errors[-1]}" if self.errors else ""
            raise ProviderError(f"droid ended with {code} before it was ready{why}", retryable=False) from None

    async def _begin(self, request: AgentRequest, machine_id: str, settings: dict[str, str]) -> None:
        params: dict[str, Any] = {"machineId": machine_id, "cwd": request.cwd, **settings}
        if request.instructions:
            params["systemPrompt"] = {"type": "preset", "preset": "droid", "append": request.instructions}
        self.backend_session_id = _opened(
            await self._rpc.request("initialize_session", params, OPEN_SECONDS)
        ).session_id
        if not self.backend_session_id:
            raise ProviderError("droid started a session without an id", retryable=False)

    async def _resume(self, session_id: str, settings: dict[str, str]) -> None:
        try:
            result = await self._rpc.request("load_session", {"sessionId": session_id}, OPEN_SECONDS)
        except RequestRefused as refused:
            if refused.code == NOT_FOUND or "not found" in str(refused).lower():
                raise SessionLost(str(refused)) from refused
            raise
        opened = _opened(result)
        self._mapper = EventMapper(opened.inclusive_token_usage or opened.token_usage)
        self.backend_session_id = session_id
        # What a session was last allowed by itself is kept with it: it goes on under our rules or not at all.
        await self._rpc.request("update_session_settings", settings)

    # --- outgoing ---------------------------------------------------------------------------------------------------

    async def send_message(self, text: str) -> None:
        if self.done.is_set() or self.is_closed:
            raise DroidExited
        self._is_cancelling = False
        self._post(text)
        await self._drain()

    async def cancel(self) -> None:
        self._is_cancelling = True
        self._undelivered = []
        self._spawn(self._interrupt())
        await self._drain()

    async def close(self) -> None:
        if self.is_closed:
            return
        self.is_closed = True
        if not self.done.is_set():
            with suppress(ProviderError):
                await self._rpc.request("interrupt_session", patience=CLOSE_SECONDS)
                await self._rpc.request("close_session", patience=CLOSE_SECONDS)
        self.end()
        await self._program.end()
        await asyncio.wait({self._listening})
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def wait(self) -> int:
        await self.done.wait()
        await asyncio.wait({self._listening})
        return self._code

    def _post(self, text: str) -> None:
        # Its answer is awaited beside everything else: it comes only after what was told before it was read.
        request_id = self._rpc.post("add_user_message", {"text": text})
        self._turns.send(request_id)
        self._mapper.begin()
        self._spawn(self._await_acceptance(request_id))

    async def _await_acceptance(self, request_id: str) -> None:
        try:
            await self._rpc.answer(request_id, "add_user_message")
        except ProviderError as error:
            self.errors.append(error)
            if self._turns.drop(request_id):
                await self.publish(Completion("error", error=str(error)))

    async def _interrupt(self) -> None:
        try:
            await self._rpc.request("interrupt_session")
        except ProviderError as error:
            self.errors.append(error)

    async def _drain(self) -> None:
        try:
            await self._program.stdin.drain()
        except OSError as error:
            raise ProviderError(f"droid cannot be reached any more: {error}", retryable=False) from error

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # --- incoming ---------------------------------------------------------------------------------------------------

    async def _listen(self) -> None:
        try:
            await self._rpc.listen(self._take)
        finally:
            # One that closed its stdout and stays says nothing more, and would be waited for without end.
            self._code = await self._program.end()
            if stderr_tail := self._program.stderr_tail:
                self.errors.append(ProviderError(stderr_tail, retryable=False))
            self.end()

    async def _take(self, envelope: wire.Envelope) -> None:
        if envelope.type == "request":
            await self._asked(envelope)
        elif envelope.method == wire.NOTIFICATION:
            note = wire.read_notification(envelope.params, self.backend_session_id)
            if note is not None:
                await self._hear(note)

    async def _hear(self, note: wire.Notification) -> None:
        for event in self._mapper.map(note):
            await self.publish(event)
        if reason := self._track(note):
            await self._finish(reason)

    def _track(self, note: wire.Notification) -> str:
        """Where it is in its work; the reason where all of it is over, else nothing."""
        turns = self._turns
        match note:
            case wire.CreateMessage() if _is_echo(note.message):
                turns.take_up(note.request_id)
            case wire.CreateMessage() if note.message.role == "assistant":
                self._undelivered = []
            case wire.StateChanged() if note.new_state != "idle":
                turns.work()
            case wire.StateChanged():
                return ("error" if self._mapper.last_error else "completed") if turns.idle() else ""
            case wire.TurnCompleted():
                return note.reason if turns.complete(note.turn_id, cancelled=note.reason == "cancelled") else ""
            case wire.PermissionResolved():
                self._pending.discard(note.request_id)
            case _:
                pass
        return ""

    async def _finish(self, reason: str) -> None:
        """All sent messages are done."""
        self._pending.clear()
        if self._is_cancelling or reason == "cancelled":
            await self.publish(Completion("cancelled", self._mapper.last_text))
        elif reason not in _SUCCESSFUL:
            await self.publish(Completion("error", self._mapper.last_text, self._mapper.last_error or reason))
        elif self._undelivered:
            text, self._undelivered = "\n".join(self._undelivered), []
            self._post(text)
        else:
            await self.publish(Completion("completed", self._mapper.last_text))

    # --- questions --------------------------------------------------------------------------------------------------

    async def _asked(self, envelope: wire.Envelope) -> None:
        try:
            match envelope.method:
                case "droid.request_permission":
                    asked = msgspec.json.decode(envelope.params, type=wire.PermissionRequest)
                    await self._ask(envelope.id, asked.tool_uses)
                case "droid.ask_user":
                    await self._question(envelope)
                case _:
                    self._rpc.write(wire.refusal(envelope.id, envelope.method))
        except ValueError:
            # What is not understood is not allowed; and who asks must not wait for ever.
            self._rpc.write(wire.response(envelope.id, {"selectedOption": "cancel", "cancelled": True, "answers": []}))
            raise

    async def _question(self, envelope: wire.Envelope) -> None:
        asked = msgspec.json.decode(envelope.params, type=wire.Questions)
        questions = " / ".join(query.question for query in asked.questions)
        await self.publish(SystemNote(f"asked, and was told to decide by itself: {questions}"))
        self._rpc.write(wire.response(envelope.id, {"cancelled": True, "answers": []}))
        self._undelivered.append(
            "Your question could not be shown to anybody while you work. Decide by yourself where you can; "
            "else end your turn with the question as your answer."
        )

    async def _ask(self, request_id: str | int | None, asked: list[wire.Confirmation]) -> None:
        if self._plan or not asked:
            await self._keep_planning(request_id, asked)
            return
        self._pending.add(request_id)

        async def answer(decided: PermissionAnswer) -> None:
            await self._decided(request_id, decided)

        combined = CombinedAnswer(answer)
        events: list[AgentEvent] = []
        for one in asked:
            call, told = self._mapper.announce(one.tool_use)
            events += [*told, *combined.questions(call, one)]
        for event in events:
            await self.publish(event)

    async def _keep_planning(self, request_id: str | int | None, asked: list[wire.Confirmation]) -> None:
        """Nothing that has to be asked is done in a session that only plans; its plan is its answer."""
        for one in asked:
            call, told = self._mapper.announce(one.tool_use)
            for event in told:
                await self.publish(event)
            plan = one.details.get("plan")
            if one.confirmation_type == "exit_spec_mode" and isinstance(plan, str):
                self._mapper.last_text = plan
                await self.publish(Message(plan, f"plan-{call.call_id}"))
            else:
                self._undelivered.append(f"{call.name} was not allowed: only look, and tell what you would do.")
        self._rpc.write(wire.response(request_id, {"selectedOption": "cancel"}))

    async def _decided(self, request_id: str | int | None, decided: PermissionAnswer) -> None:
        if request_id not in self._pending:
            return  # it no longer waits: it was interrupted, or is gone
        self._pending.discard(request_id)
        if decided.approved:
            self._rpc.write(wire.response(request_id, {"selectedOption": "proceed_once"}))
        else:
            result = {"selectedOption": "cancel"}
            if decided.comment:
                result["comment"] = decided.comment
                self._undelivered.append(f"That was not allowed: {decided.comment}. Go on without it.")
            self._rpc.write(wire.response(request_id, result))
        await self._drain()


def _opened(result: msgspec.Raw) -> wire.SessionOpened:
    try:
        return msgspec.json.decode(result, type=wire.SessionOpened)
    except ValueError as error:
        raise ProviderError(
            f"droid answered with something that is not understood: {error}", retryable=False
        ) from error


def _is_echo(said: wire.WireMessage) -> bool:
    """Whether this is what we sent it; what it adds for its model alone is not."""
    return said.role == "user" and said.visibility != "llm_only" and any(block.type == "text" for block in said.content)
