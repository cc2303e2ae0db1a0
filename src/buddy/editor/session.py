"""One session in an editor: prompts in, updates out, questions in between.

Invariants: a prompt is answered after every update of its run; an editor that goes away takes nothing with it: what it
sent is in the session, and open questions can be answered elsewhere.
"""

import asyncio
import contextlib
import time
from collections.abc import Coroutine, Sequence
from typing import Any

from msgspec.structs import replace

from buddy.client.bodies import read_full_body
from buddy.client.client import Client
from buddy.client.images import ImageFile
from buddy.client.view import View
from buddy.editor.json_rpc import Json, Peer, report
from buddy.editor.prompt_runs import PromptRuns
from buddy.editor.questions import Questions
from buddy.editor.settings import SessionSettings
from buddy.editor.shapes import ClientCapabilities
from buddy.editor.updates import Display, Updates
from buddy.protocol.envelopes import Event, parse_incoming
from buddy.protocol.events import (
    ApprovalExpired,
    ApprovalReceived,
    ApprovalRequired,
    EventBody,
    QuestionAnswered,
    QuestionAsked,
    RunComplete,
    UserMessage,
)
from buddy.protocol.mcp_requests import OfferedMcpServer
from buddy.protocol.requests import ReadEvents, ReadEventsReply

PAGE = 1000
MAX_QUEUED = 1000
FLUSH_SECONDS = 0.2
REPLAYED = (
    *("session_started", "user_message", "assistant_message", "tool_call", "tool_claimed", "tool_result"),
    *("approval_required", "approval_received", "approval_expired", "question_asked", "question_answered"),
    *("child_started", "child_finished", "run_started", "run_complete", "approval_policy_changed", "model_switched"),
    *("session_renamed", "session_compacted", "files_restored"),
)
"""What rebuilds a conversation; the rest is how it came about."""


class EditorSession:
    def __init__(
        self, session_id: str, client: Client, peer: Peer, capabilities: ClientCapabilities, questions: Questions
    ) -> None:
        self.session_id = session_id
        self.settings = SessionSettings(has_booleans=capabilities.has_boolean_options)
        self.servers: tuple[OfferedMcpServer, ...] = ()
        """The MCP servers that the editor has brought."""
        self.prompts = PromptRuns(session_id, client, peer)
        self._client = client
        self._peer = peer
        self._questions = questions
        self._view = View()
        self._updates = Updates(Display(capabilities.shows_terminals, capabilities.shows_notices))
        self._incoming: asyncio.Queue[Event] = asyncio.Queue(MAX_QUEUED)
        self._worker: asyncio.Task[None] | None = None
        self._is_silent = False
        self._flushed_at = 0.0

    @property
    def last_seq(self) -> int:
        return self._view.last_seq

    @property
    def root(self) -> str:
        return self._updates.root

    def use(self, client: Client, questions: Questions) -> None:
        """Continue on another connection."""
        self._client = self.prompts.client = client
        self._questions = questions

    def start(self) -> None:
        """Show events from now on."""
        self._worker = self._worker or asyncio.get_running_loop().create_task(self._work())

    async def close(self) -> None:
        """Show nothing more; the session itself stays as it is."""
        self._questions.withdraw_all(self.session_id)
        if self._worker is not None:
            self._worker.cancel()
            await asyncio.wait([self._worker])
        self.prompts.abandon()

    async def receive(self, event: Event) -> None:
        await self._incoming.put(event)

    def has_child(self, session_id: str) -> bool:
        return session_id in self._view.children

    # --- history ----------------------------------------------------------------------------------------------------

    async def read_history(self, *, is_shown: bool) -> None:
        """Fold what has happened so far, and show it or not."""
        self._is_silent = not is_shown
        while True:
            request = ReadEvents(self._view.last_seq, PAGE, types=REPLAYED)
            page = await self._client.request(request, ReadEventsReply, self.session_id)
            for line in page.events:
                event = parse_incoming(bytes(line))
                if isinstance(event, Event):
                    await self._show(event)
            if not page.events:
                break
        self._is_silent = False

    def ask_again(self) -> None:
        """Ask what was open before this editor came."""
        for approval_id in self._view.approvals:
            self._questions.ask_again(approval_id)
        for question_id in self._view.questions:
            self._questions.ask_again(question_id)

    # --- prompts ----------------------------------------------------------------------------------------------------

    async def prompt(self, text: str, images: Sequence[ImageFile]) -> Json:
        answer = await self.prompts.run(text, images)
        if answer.note:
            await self.show(self._updates.note(answer.note, "warning"))
        return answer.result()

    def cancel(self) -> Coroutine[Any, Any, None]:
        """Cancel what was asked for before now, by awaiting what this returns."""
        return self.prompts.cancel(self._view.active)

    @property
    def is_cancelling(self) -> bool:
        return self.prompts.is_cancelling

    # --- events -----------------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        while True:
            event = await self._next()
            try:
                await self._show(event)
            except Exception as error:  # noqa: BLE001 - whatever one event does, the ones after it are shown
                report(f"{event.type} can't be shown: {str(error) or type(error).__name__}")

    async def _next(self) -> Event:
        """The next event; output of commands is sent in between, but not in every small piece."""
        while self._updates.unsent:
            wait = self._flushed_at + FLUSH_SECONDS - time.monotonic()
            if wait > 0:
                with contextlib.suppress(TimeoutError):
                    return await asyncio.wait_for(self._incoming.get(), wait)
            self._flushed_at = time.monotonic()
            for update in self._updates.flush():
                await self.show(update)
        return await self._incoming.get()

    async def _show(self, event: Event) -> None:
        if event.session_id != self.session_id:
            if self._view.apply_to_child(event.to_json()):
                await self._note_question(event, await self._client.perform(read_full_body(event)))
            return
        if not self._view.apply(event.to_json()):
            return
        body = await self._client.perform(read_full_body(event))
        if body is None:
            return
        own = isinstance(body, UserMessage) and self.prompts.has(body.message_id)
        for update in self._updates.of(event, body, own=own):
            await self.show(update)
        await self._note_settings(body)
        await self._note_question(event, body)
        if isinstance(body, UserMessage):
            self.prompts.note_message(body, event.run_id)
        elif isinstance(body, RunComplete):
            self.prompts.note_end(body)

    async def show(self, update: Json) -> None:
        if not self._is_silent:
            await self._peer.notify("session/update", {"sessionId": self.session_id, "update": update})

    async def _note_question(self, event: Event, body: EventBody | None) -> None:
        is_live = self._worker is not None
        match body:
            case ApprovalRequired():
                is_own = event.session_id == self.session_id  # a sub-agent may use the same ids
                known = self._updates.calls.get(body.call_id or "") if is_own else None
                self._questions.approval(self, body, event, known, ask=is_live)
            case QuestionAsked():
                self._questions.question(self, body, event, ask=is_live)
            case ApprovalReceived() | ApprovalExpired():
                self._questions.withdraw(body.approval_id)
            case QuestionAnswered():
                self._questions.withdraw(body.question_id)
            case RunComplete():
                self._questions.withdraw_all(event.session_id)
            case _:
                pass

    # --- settings ---------------------------------------------------------------------------------------------------

    async def _note_settings(self, body: EventBody) -> None:
        before, before_mode = replace(self.settings), self.settings.mode
        self.settings.fold(body)
        if self.settings != before and self._worker is not None:
            await self.show_settings(mode_changed=self.settings.mode != before_mode)

    async def show_settings(self, *, mode_changed: bool) -> None:
        if mode_changed:
            await self.show({"sessionUpdate": "current_mode_update", "currentModeId": self.settings.mode})
        await self.show({"sessionUpdate": "config_option_update", "configOptions": self.settings.options()})
