"""One conversation with its own Droid process, reported as events.

Invariants: the work on the messages sent ends with exactly one completion, unless the process exits first, and then
the events end.
"""

import asyncio
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from buddy.backends.droid import wire
from buddy.backends.droid.event_mapper import DroidEventMapper
from buddy.backends.droid.questions import DroidQuestions
from buddy.backends.droid.rpc import DroidExited, DroidRpc, RequestRefused, Unresponsive
from buddy.backends.droid.turns import Turns
from buddy.backends.external.contract import (
    AgentImage,
    AgentRequest,
    Completion,
    SessionLost,
)
from buddy.backends.external.event_channel import EventChannel
from buddy.errors import ProviderError
from buddy.targets.programs import Program

OPEN_SECONDS = 60.0
ACCEPT_SECONDS = 30.0
CLOSE_SECONDS = 2.0
NOT_FOUND = -32004
_SUCCESSFUL = ("completed", "permission_rejected", "spec_handoff")


class DroidSession(EventChannel):
    """Satisfies `Executor`."""

    takes_images = True

    def __init__(self, program: Program, *, plan: bool) -> None:
        super().__init__()
        self.backend_session_id = ""
        self.is_closed = False
        self._program = program
        self._rpc = DroidRpc(program, self.errors.append)
        self._turns = Turns()
        self._mapper = DroidEventMapper()
        self._questions = DroidQuestions(self._rpc, self._mapper, self.publish, plan=plan)
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
            raise ProviderError(f"droid exited with code {code} before it was ready{why}", retryable=False) from None

    async def _begin(self, request: AgentRequest, machine_id: str, settings: dict[str, str]) -> None:
        params: dict[str, Any] = {"machineId": machine_id, "cwd": request.cwd, **settings}
        if request.instructions:
            params["systemPrompt"] = {"type": "preset", "preset": "droid", "append": request.instructions}
        self.backend_session_id = _parse_opened(
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
        opened = _parse_opened(result)
        self._mapper.set_spent(opened.inclusive_token_usage or opened.token_usage)
        self.backend_session_id = session_id
        # Droid stores a session's autonomy level: without this it would resume with whatever was last set.
        await self._rpc.request("update_session_settings", settings)

    # --- outgoing ---------------------------------------------------------------------------------------------------

    async def send_message(self, text: str) -> None:
        await self.send_with_images(text, ())

    async def send_with_images(self, text: str, images: Sequence[AgentImage]) -> None:
        if self.is_closed or not self.reopen():
            raise DroidExited
        self._is_cancelling = False
        self._post(text, images)
        await self._rpc.drain()

    async def cancel(self) -> None:
        self._is_cancelling = True
        self._questions.drop_messages()
        self._spawn(self._interrupt())
        await self._rpc.drain()

    async def close(self) -> None:
        if self.is_closed:
            return
        self.is_closed = True
        if self.can_continue:
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
        if self.can_continue:
            return 0
        await asyncio.wait({self._listening})
        return self._code

    def _post(self, text: str, images: Sequence[AgentImage] = ()) -> None:
        params: dict[str, Any] = {"text": text}
        if images:
            params["images"] = [
                {"type": "base64", "data": image.data, "mediaType": image.media_type} for image in images
            ]
        # Awaited in the background: the response arrives only after all events that Droid sent before it.
        request_id = self._rpc.post("add_user_message", params)
        self._turns.send(request_id)
        self._mapper.begin()
        self._spawn(self._await_acceptance(request_id))

    async def _await_acceptance(self, request_id: str) -> None:
        try:
            await self._rpc.answer(request_id, "add_user_message", ACCEPT_SECONDS)
        except ProviderError as error:
            self.errors.append(error)
            if self._turns.drop(request_id):
                await self.publish(Completion("error", error=str(error)))
            if isinstance(error, Unresponsive):
                self.end()  # the next message gets another process

    async def _interrupt(self) -> None:
        try:
            await self._rpc.request("interrupt_session")
        except ProviderError as error:
            self.errors.append(error)

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # --- incoming ---------------------------------------------------------------------------------------------------

    async def _listen(self) -> None:
        try:
            await self._rpc.listen(self._take)
        finally:
            # A process that closed its stdout but keeps running would block forever.
            self._code = await self._program.end()
            if stderr_tail := self._program.stderr_tail:
                self.errors.append(ProviderError(stderr_tail, retryable=False))
            self.end()

    async def _take(self, envelope: wire.Envelope) -> None:
        if envelope.type == "request":
            await self._questions.take(envelope)
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
        """Follow the progress of the turns; returns why the work ended, or "" while it continues."""
        turns = self._turns
        match note:
            case wire.CreateMessage() if _is_echo(note.message):
                turns.accept(note.request_id)
            case wire.CreateMessage() if note.message.role == "assistant":
                self._questions.drop_messages()
            case wire.StateChanged() if note.new_state != "idle":
                turns.work()
            case wire.StateChanged():
                return ("error" if self._mapper.last_error else "completed") if turns.idle() else ""
            case wire.TurnCompleted():
                return note.reason if turns.complete(note.turn_id, cancelled=note.reason == "cancelled") else ""
            case wire.PermissionResolved():
                self._questions.resolve(note.request_id)
            case _:
                pass
        return ""

    async def _finish(self, reason: str) -> None:
        """All sent messages are done."""
        self._questions.forget_pending()
        if self._is_cancelling or reason == "cancelled":
            await self.publish(Completion("cancelled", self._mapper.last_text))
        elif reason not in _SUCCESSFUL:
            await self.publish(Completion("error", self._mapper.last_text, self._mapper.last_error or reason))
        elif text := self._questions.pop_messages():
            self._post(text)
        else:
            await self.publish(Completion("completed", self._mapper.last_text))


def _parse_opened(result: msgspec.Raw) -> wire.SessionOpened:
    try:
        return msgspec.json.decode(result, type=wire.SessionOpened)
    except ValueError as error:
        raise ProviderError(f"droid sent an invalid response: {error}", retryable=False) from error


def _is_echo(message: wire.WireMessage) -> bool:
    """Whether this is a message we sent, not one that Droid adds for its model only."""
    return (
        message.role == "user"
        and message.visibility != "llm_only"
        and any(block.type == "text" for block in message.content)
    )
