"""One conversation with OpenCode: a session of its server, and what happens in it as our events.

Invariants: each message has one completion, at the first idle after it was picked up; events of earlier messages or
other sessions are not reported; permission requests of sub-agents are forwarded too; after a gap in the stream the
server is queried, and what was missed is reported once.
"""

import asyncio
from collections import deque
from contextlib import suppress
from typing import Literal

from msgspec import Struct

from buddy.backends.external import lenient
from buddy.backends.external.contract import Completion, Failure, PermissionAnswer, SystemNote, ToolEnded
from buddy.backends.external.event_channel import MAX_QUEUED, EventChannel
from buddy.backends.opencode.event_mapper import EventMapper, Key, OpenCodeCall
from buddy.backends.opencode.permissions import permission_of
from buddy.backends.opencode.server import OpenCodeServer
from buddy.backends.opencode.wire import Json, NotFound, StreamEvent, error_text, is_abort, read_list, read_object
from buddy.errors import BuddyError, ProviderError

Gap = Literal["gap"]
GAP: Gap = "gap"
CLOSE_SECONDS = 5.0
RETRY_SECONDS = 1.0


class Prompt(Struct, frozen=True):
    """What goes with every message."""

    directory: str
    agent: str
    model: tuple[str, str] | None
    system: str

    def body(self, text: str) -> Json:
        said: Json = {"parts": [{"type": "text", "text": text}], "agent": self.agent}
        if self.model is not None:
            said["model"] = {"providerID": self.model[0], "modelID": self.model[1]}
        return {**said, "system": self.system} if self.system else said


class OpenCodeSession(EventChannel):
    """Satisfies `Executor`. `anchor` is the id of its last message so far; ids grow."""

    def __init__(self, server: OpenCodeServer, prompt: Prompt, session_id: str, anchor: str = "") -> None:
        super().__init__()
        self.sessions: set[str] = {session_id}
        """Its own and those of its sub-agents."""
        self._server = server
        self._prompt = prompt
        self._session_id = session_id
        self._anchor = anchor
        self._newest = anchor
        self._inbox: deque[StreamEvent | Gap] = deque()
        self._arrived = asyncio.Event()
        self._closed = False
        self._mapper = EventMapper()
        self._roles: dict[str, str] = {}
        self._is_pending = False
        self._is_busy = False
        self._is_cancelled = False
        self._was_cancelled = False
        self._unseen = 0
        self._error = ""
        self._finish = ""
        self._held: dict[Key, list[Json]] = {}
        self._asked: set[str] = set()
        self._granted: set[str] = set()
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
        if self.done.is_set():
            raise ProviderError("OpenCode's server is gone", retryable=True)
        if not self._is_pending:
            self._is_pending, self._is_busy, self._is_cancelled, self._unseen = True, False, False, 0
            self._error = self._finish = ""
        self._unseen += 1
        try:
            await self._call("POST", f"/session/{self._session_id}/prompt_async", self._prompt.body(text))
        except ProviderError as error:
            self._is_pending = False
            raise ProviderError(f"OpenCode did not take the message: {error}", retryable=True) from error

    async def cancel(self) -> None:
        self._is_cancelled = True
        with suppress(NotFound):
            await self._call("POST", f"/session/{self._session_id}/abort")

    async def wait(self) -> int:
        await self.done.wait()
        return 0 if self._server.program.is_running else await self._server.program.wait()

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._is_pending and not self.done.is_set():
            with suppress(BuddyError, TimeoutError):
                async with asyncio.timeout(CLOSE_SECONDS):
                    await self.cancel()
        self._processing.cancel()
        await asyncio.wait({self._processing})
        self.end()

    # --- stream events ----------------------------------------------------------------------------------------------

    def offer(self, event: StreamEvent) -> None:
        """Something happened in one of its sessions. Where it cannot keep up, it looks at the whole again later."""
        if len(self._inbox) >= MAX_QUEUED:
            self.mark_gap()
            return
        self._inbox.append(event)
        self._arrived.set()

    def mark_gap(self) -> None:
        """Something may have been missed."""
        self._inbox.clear()
        self._inbox.append(GAP)
        self._arrived.set()

    def fail(self, why: str) -> None:
        """The server is gone."""
        self.errors.append(ProviderError(why, retryable=True))
        self.end()

    async def _process_inbox(self) -> None:
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            while self._inbox:
                item = self._inbox.popleft()
                try:
                    await (self._take(item) if isinstance(item, StreamEvent) else self._catch_up())
                except BuddyError as error:
                    self.errors.append(error)
                    await self.publish(Failure(str(error)))
                    if item == GAP:
                        await asyncio.sleep(RETRY_SECONDS)
                        self.mark_gap()

    def _on_processing_done(self, attending: asyncio.Task[None]) -> None:
        """Nobody attends any more: whoever listens must not wait for ever."""
        if not attending.cancelled() and (error := attending.exception()) is not None:
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
                for told in self._mapper.delta(body):
                    await self.publish(told)
            case "permission.asked":
                await self._permission(body)
            case "question.asked":
                await self._question(body)
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
        if is_new:
            self._error = ""  # it went on all the same
        self._finish = lenient.text(info.get("finish"))
        if info.get("error") and not is_abort(info["error"]):
            self._error = self._error or error_text(info["error"])

    async def _part(self, part: Json, *, is_own: bool) -> None:
        message_id = lenient.text(part.get("messageID"))
        if not self._is_current(message_id):
            return
        for told in self._mapper.part(part, is_own=is_own):
            await self.publish(told)
        key = message_id, lenient.text(part.get("callID"))
        call = self._mapper.calls.get(key)
        if key in self._held and call is not None and call.is_started:
            for asked in self._held.pop(key):
                await self._ask(asked, call)

    # --- status -----------------------------------------------------------------------------------------------------

    async def _status(self, event: StreamEvent) -> None:
        status = lenient.mapping(event.body.get("status"))
        match event.kind, status.get("type"):
            case ("session.idle", _) | ("session.status", "idle"):
                await self._idle()
            case "session.status", "busy" | "retry" as word:
                if self._is_cancelled and not self._is_busy:
                    await self.cancel()  # it came before the work began, and had nothing to stop
                self._is_busy = True
                if word == "retry":
                    await self.publish(SystemNote(f"OpenCode tries again: {lenient.text(status.get('message'))[:300]}"))
            case "session.error", _:
                await self._failed(event.body.get("error"))
            case _:
                pass

    async def _idle(self) -> None:
        """Said more than once about one message: only one that is still so is about the present message."""
        if not self._is_busy:
            return
        try:
            self._is_busy = self._session_id in await self._statuses()
        except ProviderError as error:
            self.errors.append(error)
            self._is_busy = False
        if not self._is_busy and self._unseen <= 0:
            await self._complete()

    async def _failed(self, error: object) -> None:
        """Alone it says nothing about the end: it may go on. Where the message was not even taken up, it is the end."""
        if is_abort(error):
            # Of a message that we cancelled it may come when the next one is at work.
            self._is_cancelled = self._is_cancelled or (self._is_busy and not self._was_cancelled)
            return
        self._error = self._error or error_text(error)
        if self._unseen > 0 and not self._is_busy and self._session_id not in await self._statuses():
            await self._complete()

    async def _complete(self) -> None:
        mapper, self._mapper = self._mapper, EventMapper()
        self._is_pending = self._is_busy = False
        self._was_cancelled = self._is_cancelled
        self._anchor = self._newest
        for forgotten in (self._roles, self._held, self._asked, self._granted):
            forgotten.clear()
        if self._is_cancelled:
            completion = Completion("cancelled", mapper.last_text)
        elif self._error:
            completion = Completion("error", mapper.last_text, self._error)
        else:
            completion = Completion("truncated" if self._finish == "length" else "completed", mapper.last_text)
        await self.publish(completion)

    # --- questions --------------------------------------------------------------------------------------------------

    async def _permission(self, asked: Json) -> None:
        """Asked as soon as it is known what the call was given, which may be said after the request."""
        request_id = lenient.text(asked.get("id"))
        if request_id in self._asked:
            return
        self._asked.add(request_id)
        of = lenient.mapping(asked.get("tool"))
        key = lenient.text(of.get("messageID")), lenient.text(of.get("callID"))
        call = self._mapper.calls.get(key)
        if not key[1]:
            await self._ask(
                asked, OpenCodeCall(self._mapper.unused_id(request_id), lenient.text(asked.get("permission")))
            )
        elif call is None or not call.is_started:
            self._held.setdefault(key, []).append(asked)
        elif not call.is_over:
            await self._ask(asked, call)

    async def _ask(self, asked: Json, call: OpenCodeCall) -> None:
        async def reply(answer: PermissionAnswer) -> None:
            if answer.approved and permission.kind == "exec":
                self._granted.add(call.call_id)
            await self._reply(asked, answer)
            if not asked.get("tool"):  # there is no call that would tell its end
                word = "allowed" if answer.approved else f"denied: {answer.comment}"
                await self.publish(ToolEnded(call.call_id, word, not answer.approved))

        call.is_asked = True
        permission = permission_of(asked, call, self._prompt.directory, reply)
        if self._is_cancelled:
            await self._reply(asked, PermissionAnswer(approved=False, comment="cancelled"))
        elif call.call_id in self._granted:  # first for a place outside, then for the same command
            await self._reply(asked, PermissionAnswer(approved=True))
        else:
            await self.publish(permission)

    async def _reply(self, asked: Json, answer: PermissionAnswer) -> None:
        """Without a word for the model a refusal would end its work."""
        request_id, session_id = lenient.text(asked.get("id")), lenient.text(asked.get("sessionID"))
        word = "once" if answer.approved else "reject"
        said: Json = {"reply": word} if answer.approved else {"reply": word, "message": answer.comment or "denied"}
        try:
            await self._call("POST", f"/permission/{request_id}/reply", said)
        except NotFound:
            with suppress(NotFound):  # it no longer waits for the answer
                await self._call("POST", f"/session/{session_id}/permissions/{request_id}", {"response": word})

    async def _question(self, asked: Json) -> None:
        questions = [lenient.text(question.get("question")) for question in lenient.mappings(asked.get("questions"))]
        await self.publish(SystemNote(f"OpenCode asked, and nobody is there to answer: {' '.join(questions)[:500]}"))
        with suppress(NotFound):
            await self._call("POST", f"/question/{lenient.text(asked.get('id'))}/reject")

    # --- after a gap ------------------------------------------------------------------------------------------------

    async def _catch_up(self) -> None:
        if not self._is_pending:
            return
        self._mapper.mark_gap()
        statuses = await self._statuses()
        children = read_list(await self._call("GET", f"/session/{self._session_id}/children"))
        self.sessions |= {lenient.text(child.get("id")) for child in children}
        for session_id in sorted(self.sessions, key=lambda one: one != self._session_id):
            for message in await self._messages(session_id):
                self._message(lenient.mapping(message.get("info")), is_own=session_id == self._session_id)
                for part in lenient.mappings(message.get("parts")):
                    await self._part(part, is_own=session_id == self._session_id)
        self._mapper.mark_gap()
        if self._session_id in statuses:
            self._is_busy = True
            for asked in read_list(await self._call("GET", "/permission")):
                if asked.get("sessionID") in self.sessions:
                    await self._permission(asked)
        elif "assistant" in self._roles.values() or self._is_busy:
            await self._complete()

    async def _statuses(self) -> Json:
        return read_object(await self._call("GET", "/session/status"))

    async def _messages(self, session_id: str) -> list[Json]:
        try:
            return read_list(await self._call("GET", f"/session/{session_id}/message"))
        except NotFound:
            return []

    async def _call(self, method: str, path: str, body: object = None) -> bytes:
        return await self._server.call(method, path, self._prompt.directory, body)
