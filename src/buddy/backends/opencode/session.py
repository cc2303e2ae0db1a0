"""One conversation with OpenCode: a session of its server, and what happens in it as our events.

Invariants: each message has one completion, at the first idle after it was picked up; events of earlier messages or
other sessions are not reported; permission requests of sub-agents are forwarded too; after a gap in the stream the
server is queried, and what was missed is reported once.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress

from msgspec import Struct
from msgspec.structs import replace

from buddy.backends.external import lenient
from buddy.backends.external.contract import AgentImage, Completion, Failure, SystemNote, UsageReport
from buddy.backends.external.event_channel import EventChannel
from buddy.backends.opencode.catalog import ModelKey
from buddy.backends.opencode.client import SessionClient
from buddy.backends.opencode.event_mapper import OpenCodeEventMapper
from buddy.backends.opencode.inbox import GAP, Inbox
from buddy.backends.opencode.questions import OpenCodeQuestions
from buddy.backends.opencode.server import OpenCodeServer
from buddy.backends.opencode.wire import Json, StreamEvent, error_text, is_abort
from buddy.errors import BuddyError, ProviderError

CLOSE_SECONDS = 5.0
RETRY_SECONDS = 1.0


class PromptOptions(Struct, frozen=True):
    """The settings sent with every message."""

    directory: str
    agent: str
    model: tuple[str, str] | None
    system: str

    def body(self, text: str, images: Sequence[AgentImage] = ()) -> Json:
        parts: list[Json] = [{"type": "text", "text": text}] if text or not images else []
        for image in images:
            url = f"data:{image.media_type};base64,{image.data}"
            parts.append({"type": "file", "mime": image.media_type, "url": url, "filename": image.name or "image"})
        body: Json = {"parts": parts, "agent": self.agent}
        if self.model is not None:
            body["model"] = {"providerID": self.model[0], "modelID": self.model[1]}
        return {**body, "system": self.system} if self.system else body


class OpenCodeSession(EventChannel):
    """Satisfies `Executor`. `anchor` is the id of its newest message so far; ids only grow."""

    takes_images = True

    def __init__(
        self,
        server: OpenCodeServer,
        prompt: PromptOptions,
        session_id: str,
        anchor: str = "",
        limits: Mapping[ModelKey, int] | None = None,
    ) -> None:
        """`limits` are the context windows of the models."""
        super().__init__()
        self.inbox = Inbox()
        self.sessions: set[str] = {session_id}
        """Its own and those of its sub-agents."""
        self._server = server
        self._prompt = prompt
        self._client = SessionClient(server, session_id, prompt.directory)
        self._questions = OpenCodeQuestions(self._client, self.publish, lambda: self._is_cancelled)
        self._session_id = session_id
        self._anchor = anchor
        self._newest = anchor
        self._closed = False
        self._mapper = OpenCodeEventMapper()
        self._roles: dict[str, str] = {}
        self._limits = limits or {}
        self._model: ModelKey = ("", "")
        self._is_pending = False
        self._is_busy = False
        self._is_cancelled = False
        self._was_cancelled = False
        self._unseen = 0
        self._error = ""
        self._finish = ""
        self._processing = asyncio.create_task(self._process_inbox())
        self._processing.add_done_callback(self._on_processing_done)

    # --- executor ---------------------------------------------------------------------------------------------------

    @property
    def backend_session_id(self) -> str:
        return self._session_id

    @property
    def is_closed(self) -> bool:
        return self._closed

    async def send_message(self, text: str) -> None:
        await self.send_with_images(text, ())

    async def send_with_images(self, text: str, images: Sequence[AgentImage]) -> None:
        if not self.reopen():
            raise ProviderError("OpenCode's server has exited", retryable=True)
        if not self._is_pending:
            self._is_pending, self._is_busy, self._is_cancelled, self._unseen = True, False, False, 0
            self._error = self._finish = ""
        self._unseen += 1
        try:
            await self._client.prompt(self._prompt.body(text, images))
        except ProviderError as error:
            self._is_pending = False
            raise ProviderError(f"OpenCode did not accept the message: {error}", retryable=True) from error

    async def cancel(self) -> None:
        self._is_cancelled = True
        await self._client.abort()

    async def wait(self) -> int:
        await self.done.wait()
        return 0 if self._server.program.is_running else await self._server.program.wait()

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._is_pending and self.can_continue:
            with suppress(BuddyError, TimeoutError):
                async with asyncio.timeout(CLOSE_SECONDS):
                    await self.cancel()
        self._processing.cancel()
        await asyncio.wait({self._processing})
        self.end()

    # --- stream events ----------------------------------------------------------------------------------------------

    def fail(self, why: str) -> None:
        """The server is gone."""
        self.errors.append(ProviderError(why, retryable=True))
        self.end()

    async def _process_inbox(self) -> None:
        while True:
            item = await self.inbox.get()
            try:
                await (self._take(item) if isinstance(item, StreamEvent) else self._catch_up())
            except BuddyError as error:
                self.errors.append(error)
                await self.publish(Failure(str(error)))
                if item == GAP:
                    await asyncio.sleep(RETRY_SECONDS)
                    self.inbox.mark_gap()

    def _on_processing_done(self, task: asyncio.Task[None]) -> None:
        """If processing failed, no more events will come: end the channel so that its reader does not wait forever."""
        if not task.cancelled() and (error := task.exception()) is not None:
            self.fail(f"{type(error).__name__}: {error}")

    async def _take(self, event: StreamEvent) -> None:
        if not self._is_pending:
            return
        body, is_own = event.body, event.session_id == self._session_id
        match event.kind:
            case "message.updated":
                self._message(lenient.mapping(body.get("info")), is_own=is_own)
            case "message.part.updated":
                await self._part(lenient.mapping(body.get("part")), is_own=is_own)
            case "message.part.delta" if is_own and self._is_current(lenient.text(body.get("messageID"))):
                for reported in self._mapper.delta(body):
                    await self.publish(reported)
            case "permission.asked":
                await self._questions.take(body, self._mapper)
            case "question.asked":
                await self._questions.decline(body)
            case _ if is_own:
                await self._status(event)
            case _:
                pass

    # --- messages and parts -----------------------------------------------------------------------------------------

    def _is_current(self, message_id: str) -> bool:
        return self._roles.get(message_id) == "assistant"

    def _message(self, info: Json, *, is_own: bool) -> None:
        message_id, role = lenient.text(info.get("id")), lenient.text(info.get("role"))
        if message_id <= self._anchor:
            return
        is_new = message_id not in self._roles
        self._roles[message_id] = role
        self._newest = max(self._newest, message_id)
        if not is_own:
            return
        if role == "user":
            self._unseen -= is_new
            return
        if provider := lenient.text(info.get("providerID")):
            self._model = provider, lenient.text(info.get("modelID"))
        if is_new:
            self._error = ""  # it continued despite the error
        self._finish = lenient.text(info.get("finish"))
        if info.get("error") and not is_abort(info["error"]):
            self._error = self._error or error_text(info["error"])

    async def _part(self, part: Json, *, is_own: bool) -> None:
        message_id = lenient.text(part.get("messageID"))
        if not self._is_current(message_id):
            return
        for event in self._mapper.part(part, is_own=is_own):
            is_usage = isinstance(event, UsageReport)
            await self.publish(replace(event, context_limit=self._limits.get(self._model)) if is_usage else event)
        key = message_id, lenient.text(part.get("callID"))
        await self._questions.release(key, self._mapper.calls.get(key))

    # --- status -----------------------------------------------------------------------------------------------------

    async def _status(self, event: StreamEvent) -> None:
        status = lenient.mapping(event.body.get("status"))
        match event.kind, status.get("type"):
            case ("session.idle", _) | ("session.status", "idle"):
                await self._idle()
            case "session.status", "busy" | "retry" as word:
                if self._is_cancelled and not self._is_busy:
                    await self.cancel()  # the first abort came before the work began and had no effect
                self._is_busy = True
                if word == "retry":
                    await self.publish(SystemNote(f"OpenCode is retrying: {lenient.text(status.get('message'))[:300]}"))
            case "session.error", _:
                await self._take_error(event.body.get("error"))
            case _:
                pass

    async def _idle(self) -> None:
        """Idle may be reported more than once per message, so the server is asked whether it still is."""
        if not self._is_busy:
            return
        try:
            self._is_busy = await self._client.is_busy()
        except ProviderError as error:
            self.errors.append(error)
            self._is_busy = False
        if not self._is_busy and self._unseen <= 0:
            await self._complete()

    async def _take_error(self, error: object) -> None:
        """An error is not the end, as OpenCode may continue, unless it had not even started on the message."""
        if is_abort(error):
            # The abort of a cancelled message may be reported while the next one is being worked on.
            self._is_cancelled = self._is_cancelled or (self._is_busy and not self._was_cancelled)
            return
        self._error = self._error or error_text(error)
        if self._unseen > 0 and not self._is_busy and not await self._client.is_busy():
            await self._complete()

    async def _complete(self) -> None:
        mapper, self._mapper = self._mapper, OpenCodeEventMapper()
        self._is_pending = self._is_busy = False
        self._was_cancelled = self._is_cancelled
        self._anchor = self._newest
        self._roles.clear()
        self._questions.clear()
        if self._is_cancelled:
            completion = Completion("cancelled", mapper.last_text)
        elif self._error:
            completion = Completion("error", mapper.last_text, self._error)
        else:
            completion = Completion("truncated" if self._finish == "length" else "completed", mapper.last_text)
        await self.publish(completion)

    # --- after a gap ------------------------------------------------------------------------------------------------

    async def _catch_up(self) -> None:
        if not self._is_pending:
            return
        self._mapper.mark_gap()
        is_busy = await self._client.is_busy()
        self.sessions |= await self._client.children()
        for session_id in sorted(self.sessions, key=lambda known: known != self._session_id):  # its own first
            for message in await self._client.messages(session_id):
                self._message(lenient.mapping(message.get("info")), is_own=session_id == self._session_id)
                for part in lenient.mappings(message.get("parts")):
                    await self._part(part, is_own=session_id == self._session_id)
        self._mapper.mark_gap()
        if is_busy:
            self._is_busy = True
            for asked in await self._client.pending_permissions():
                if asked.get("sessionID") in self.sessions:
                    await self._questions.take(asked, self._mapper)
        elif "assistant" in self._roles.values() or self._is_busy:
            await self._complete()
