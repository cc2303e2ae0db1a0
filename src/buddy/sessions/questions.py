"""Questions that calls ask the user of a session: recorded, answered once, closed when their call ends.

Invariants: a question is in the log before anybody can answer it; at most one answer is accepted; nobody is asked in a
headless session without a person; what was answered is not recorded.
"""

import asyncio

from buddy import faults
from buddy.errors import ProtocolError
from buddy.protocol.actors import RuntimeActor
from buddy.protocol.events import QuestionAnswered, QuestionAsked
from buddy.protocol.forms import Answer, check_answer
from buddy.protocol.ids import Ids
from buddy.protocol.question_events import PersonAnswer, PersonQuestion, QuestionAction
from buddy.protocol.question_requests import AnswerQuestion
from buddy.sessions.approvals import HEADLESS_SECONDS
from buddy.sessions.hook_points import HookPoints
from buddy.sessions.journal import Journal
from buddy.sessions.state import SessionFold

MAX_TEXT = 8 * 1024


class Questions:
    def __init__(self, journal: Journal, fold: SessionFold, ids: Ids, timeout: float | None, hooks: HookPoints) -> None:
        self._journal = journal
        self._fold = fold
        self._ids = ids
        self._timeout = timeout
        self._hooks = hooks
        self._waiting: dict[str, asyncio.Future[PersonAnswer]] = {}

    async def ask(self, call_id: str, question: PersonQuestion) -> PersonAnswer:
        """The person's answer; declined where there is no person, cancelled where nobody answers in time."""
        run = self._fold.run
        if run is None:
            return PersonAnswer("cancel")
        delegated = self._fold.started.delegated if self._fold.started else None
        asked = QuestionAsked(
            question_id=self._ids("ques"),
            source=question.source,
            message=question.message[:MAX_TEXT],
            mode=question.mode,
            schema=question.schema,
            url=question.url,
            call_id=call_id,
            session_id=self._fold.started.session_id if self._fold.started and delegated else None,
            parent=delegated and delegated.parent,
            agent=delegated and delegated.agent,
        )
        self._journal.record(asked, run.run_id)
        question_id = asked.question_id
        if self._is_unattended:
            self._close(question_id, RuntimeActor.POLICY, "decline")
            await self._journal.commit()
            return PersonAnswer("decline")
        answered = self._waiting[question_id] = asyncio.get_running_loop().create_future()
        try:
            await self._journal.commit(durable=True)
            faults.reached("question.asked")
            self._hooks.notify(f"{asked.source} asks: {asked.message}", "elicitation_dialog")
            async with asyncio.timeout(self._seconds):
                return await answered
        except TimeoutError:
            if answered.done():
                return answered.result()
            self._close(question_id, RuntimeActor.TIMEOUT, "cancel")
            return PersonAnswer("cancel")
        finally:
            self._waiting.pop(question_id, None)

    async def answer(self, request: AnswerQuestion, by: str) -> None:
        """A person's answer; the first one wins."""
        run = self._fold.run
        asked = run.questions.get(request.question_id) if run is not None else None
        waiting = self._waiting.get(request.question_id)
        if run is None or asked is None or waiting is None or waiting.done():
            raise ProtocolError("APPROVAL_NOT_FOUND", f"question {request.question_id[:80]} is not open (any more)")
        answer = _checked(asked, request)
        self._close(request.question_id, by, request.action)
        waiting.set_result(PersonAnswer(request.action, answer))
        await self._journal.commit(durable=True)

    def withdraw(self, call_id: str) -> None:
        """Close the open questions of a call that has ended."""
        run = self._fold.run
        for question in list(run.questions.values()) if run is not None else []:
            if question.call_id == call_id:
                self._close(question.question_id, RuntimeActor.DAEMON, "cancel")

    def _close(self, question_id: str, by: str, action: QuestionAction) -> None:
        run = self._fold.run
        if run is not None and question_id in run.questions:
            self._journal.record(QuestionAnswered(question_id=question_id, by=by, action=action), run.run_id)

    @property
    def _is_unattended(self) -> bool:
        started = self._fold.started
        if started is None or started.mode != "headless":
            return False
        options = started.options
        is_attended = options is not None and (options.attended or options.approval_policy == "ask")
        return not is_attended

    @property
    def _seconds(self) -> float | None:
        started = self._fold.started
        if self._timeout is not None:
            return self._timeout
        return HEADLESS_SECONDS if started is not None and started.mode == "headless" else None


def _checked(asked: QuestionAsked, request: AnswerQuestion) -> Answer | None:
    if request.action != "accept" or asked.mode == "url":
        return None
    try:
        return check_answer(asked.schema, request.answer or {})
    except ValueError as error:
        raise ProtocolError("INVALID_REQUEST", f"answer: {error}") from error
