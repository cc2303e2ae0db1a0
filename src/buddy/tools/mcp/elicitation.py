"""Questions of a server, asked in the session whose call they belong to.

Invariants: a question is never asked in a session that did not call; where several sessions wait for calls of one older
server, which does not say what its question is about, nobody is asked; a question ends with its call, and its server
gets an answer in any case; the time a person takes does not count.
"""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import anyio
import msgspec
from mcp.client.session import ClientRequestContext
from mcp_types import ElicitRequestFormParams, ElicitRequestParams, ElicitResult

from buddy.protocol.question_events import PersonAnswer, PersonQuestion
from buddy.tools.mcp.contract import Caller

MAX_SCHEMA = 32 * 1024

_calling: ContextVar["_Calling | None"] = ContextVar("calling", default=None)


class _Calling:
    """A call under way, its deadline, and its open questions."""

    def __init__(self, caller: Caller, deadline: asyncio.Timeout) -> None:
        self.caller = caller
        self._deadline = deadline
        self._questions: set[anyio.CancelScope] = set()
        self._is_over = False

    def end(self) -> None:
        """Cancel what is still asked: they are handled in tasks of the connection, which outlive the call."""
        self._is_over = True
        for question in self._questions:
            question.cancel()

    async def ask(self, question: PersonQuestion) -> PersonAnswer:
        if self._is_over:
            return PersonAnswer("cancel")
        with anyio.CancelScope() as scope, self._paused():
            self._questions.add(scope)
            try:
                return await self.caller.ask(question)
            finally:
                self._questions.discard(scope)
        return PersonAnswer("cancel")

    @contextmanager
    def _paused(self) -> Generator[None]:
        loop = asyncio.get_running_loop()
        before = self._deadline.when()
        left = None if before is None else before - loop.time()
        self._deadline.reschedule(None)
        try:
            yield
        finally:
            if left is not None and not self._is_over and not self._deadline.expired():
                self._deadline.reschedule(loop.time() + left)


class Callers:
    """The calls of one connection that are under way."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._calls: list[_Calling] = []

    @contextmanager
    def calling(self, caller: Caller, deadline: asyncio.Timeout) -> Generator[None]:
        call = _Calling(caller, deadline)
        self._calls.append(call)
        token = _calling.set(call)
        try:
            yield
        finally:
            _calling.reset(token)
            self._calls.remove(call)
            call.end()

    async def elicit(self, context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        """Ask a person; without one, or without knowing whom, nothing is given."""
        del context
        call = _calling.get() or self._only()
        question = self._question(params)
        if call is None or question is None:
            return ElicitResult(action="cancel")
        answer = await call.ask(question)
        is_form = isinstance(params, ElicitRequestFormParams)
        return ElicitResult(action=answer.action, content=answer.answer if is_form else None)

    def _only(self) -> _Calling | None:
        """The call that asks: an older server does not say which, so all must be of one session."""
        sessions = {call.caller.session_id for call in self._calls}
        return self._calls[-1] if len(sessions) == 1 else None

    def _question(self, params: ElicitRequestParams) -> PersonQuestion | None:
        source = f"mcp:{self._server}"
        if not isinstance(params, ElicitRequestFormParams):
            return PersonQuestion(source, params.message, "url", url=params.url)
        schema: dict[str, Any] = dict(params.requested_schema)
        if len(msgspec.json.encode(schema)) > MAX_SCHEMA:
            return None
        return PersonQuestion(source, params.message, "form", schema)
