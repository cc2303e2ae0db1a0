"""What the runtime asks, shown by the editor: approvals as permission requests, questions as elicitations.

Invariants: a question is open in the editor at most once, and is withdrawn when it was answered elsewhere; what the
editor cannot ask is denied with that reason, or left to other clients.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol

from buddy.client.client import Client
from buddy.editor.choices import answer_of, choice_request, choices_of, view_of_question
from buddy.editor.json_rpc import CANCELLED, Json, Peer, RpcError, is_object
from buddy.editor.permissions import DescribeApproval, decision_of, permission_request, unasked, view_of_approval
from buddy.editor.shapes import ClientCapabilities
from buddy.editor.tool_calls import CallView
from buddy.editor.updates import chunk
from buddy.errors import ProtocolError
from buddy.protocol.envelopes import Event
from buddy.protocol.events import ApprovalRequired, QuestionAsked
from buddy.protocol.question_requests import AnswerQuestion
from buddy.protocol.requests import AcceptedReply, SubmitApproval


class Shown(Protocol):
    """The session in the editor."""

    session_id: str

    @property
    def is_cancelling(self) -> bool: ...

    async def show(self, update: Json) -> None: ...


class Questions:
    def __init__(
        self, peer: Peer, client: Client, capabilities: ClientCapabilities, describe: DescribeApproval
    ) -> None:
        self._peer = peer
        self._client = client
        self._capabilities = capabilities
        self._describe = describe
        self._known: dict[str, tuple[str, Callable[[], Coroutine[Any, Any, None]]]] = {}
        self._asking: dict[str, asyncio.Task[None]] = {}

    def approval(
        self, shown: Shown, approval: ApprovalRequired, event: Event, known: CallView | None, *, ask: bool
    ) -> None:
        self._note(approval.approval_id, event, lambda: self._ask_approval(shown, approval, event, known), ask=ask)

    def question(self, shown: Shown, question: QuestionAsked, event: Event, *, ask: bool) -> None:
        self._note(question.question_id, event, lambda: self._ask_question(shown, question, event), ask=ask)

    def ask_again(self, question_id: str) -> None:
        if question_id in self._known and question_id not in self._asking:
            self._start(question_id, self._known[question_id][1])

    def withdraw(self, question_id: str) -> None:
        """It was answered."""
        self._known.pop(question_id, None)
        task = self._asking.pop(question_id, None)
        if task is not None:
            task.cancel()

    def withdraw_all(self, session_id: str) -> None:
        for question_id in [key for key, (asked_in, _) in self._known.items() if asked_in == session_id]:
            self.withdraw(question_id)

    async def close(self) -> None:
        tasks = list(self._asking.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _note(
        self, question_id: str, event: Event, make: Callable[[], Coroutine[Any, Any, None]], *, ask: bool
    ) -> None:
        self._known[question_id] = (event.session_id, make)
        if ask:
            self._start(question_id, make)

    def _start(self, question_id: str, make: Callable[[], Coroutine[Any, Any, None]]) -> None:
        task = asyncio.get_running_loop().create_task(make())
        self._asking[question_id] = task
        task.add_done_callback(lambda _: self._asking.pop(question_id, None))

    async def _ask_approval(
        self, shown: Shown, approval: ApprovalRequired, event: Event, known: CallView | None
    ) -> None:
        described = self._describe(approval)
        view = view_of_approval(approval, known, described)
        if known is None:
            await shown.show(view.announce())
        await shown.show(view.update(title=view.title, content=view.shown(), locations=view.locations))
        place = (event.session_id, event.run_id or "")
        try:
            answer = await self._peer.request(
                "session/request_permission", permission_request(shown.session_id, view, described.rule)
            )
            decision = decision_of(answer, approval, *place)
        except RpcError as error:
            decision = unasked(error.message, approval, *place)
            if error.code == CANCELLED:
                decision = decision_of({}, approval, *place)
        if decision.decision == "deny" and shown.is_cancelling:
            return  # nobody denied it: the run is being cancelled, and ends its questions
        await self._finish(approval.approval_id, lambda: self._decide(decision))

    async def _decide(self, decision: SubmitApproval) -> None:
        await self._client.approve(decision)

    async def _ask_question(self, shown: Shown, question: QuestionAsked, event: Event) -> None:
        message = f"{question.source} asks: {question.message}"
        if not self._capabilities.elicits(question.mode):
            await self._offer_choices(shown, question, event, message)
            return
        request: Json = {"sessionId": shown.session_id, "mode": question.mode, "message": message}
        if question.call_id:
            request["toolCallId"] = question.call_id
        if question.mode == "form":
            request["requestedSchema"] = {"type": "object", **(question.schema or {})}
        else:
            request |= {"elicitationId": question.question_id, "url": question.url or ""}
        try:
            answer = await self._peer.request("elicitation/create", request)
        except RpcError:
            answer = {"action": "cancel"}
        await self._finish(question.question_id, lambda: self._answer(question, event.session_id, answer))

    async def _offer_choices(self, shown: Shown, question: QuestionAsked, event: Event, message: str) -> None:
        """Ask an editor without forms; what it can't ask waits for other clients, and the note says how to answer."""
        choices = choices_of(question)
        if not choices:
            where = f"buddy attach {event.session_id}"
            await shown.show(chunk("agent_thought_chunk", f"{message}\nAnswer it in a terminal: {where}\n"))
            return
        view = view_of_question(question, message)
        await shown.show(view.announce())
        answer: Json = {"action": "cancel"}
        try:
            request = choice_request(shown.session_id, view, choices)
            answer = answer_of(await self._peer.request("session/request_permission", request), choices)
        except RpcError:
            pass  # it could not ask, which is no answer of a person
        finally:
            await shown.show(view.update(status="completed" if answer["action"] == "accept" else "failed"))
        await self._finish(question.question_id, lambda: self._answer(question, event.session_id, answer))

    async def _answer(self, question: QuestionAsked, session_id: str, answer: Json) -> None:
        content = answer.get("content")
        match answer.get("action"):
            case "accept":
                fields: Json = content if is_object(content) else {}
                request = AnswerQuestion(question.question_id, "accept", fields if question.mode == "form" else None)
            case "decline":
                request = AnswerQuestion(question.question_id, "decline")
            case _:
                request = AnswerQuestion(question.question_id, "cancel")
        await self._client.request(request, AcceptedReply, session_id)

    async def _finish(self, question_id: str, answer: Callable[[], Awaitable[None]]) -> None:
        """Pass the answer on; that it was given elsewhere meanwhile shows in the session."""
        self._known.pop(question_id, None)
        self._asking.pop(question_id, None)
        try:
            await answer()
        except ProtocolError as error:
            if error.code not in ("APPROVAL_NOT_FOUND", "APPROVAL_EXPIRED", "NO_ACTIVE_RUN", "INVALID_REQUEST"):
                raise
