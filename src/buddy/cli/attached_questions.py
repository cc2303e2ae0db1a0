"""Answers questions of servers at the terminal of `buddy attach`.

Invariant: a question that was answered before, or elsewhere meanwhile, is not asked.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from buddy.cli.form_questions import FormQuestions
from buddy.client.client import Client
from buddy.client.core import Fields
from buddy.client.view import View
from buddy.errors import ProtocolError
from buddy.protocol.question_requests import AnswerQuestion
from buddy.protocol.requests import AcceptedReply

if TYPE_CHECKING:
    from buddy.protocol.json_events import JsonEvent


class AttachedQuestions:
    def __init__(self, client: Client, session_id: str) -> None:
        self._session_id = session_id
        self._view = View()
        self._questions = FormQuestions(_Terminal(client), session_id, self._view, has_person=True)

    def note(self, event: "JsonEvent", *, is_past: bool) -> None:
        """Take an event in, and ask what is open by then."""
        is_own = event["sessionId"] == self._session_id
        if is_own:
            self._view.apply(event)
        else:
            self._view.apply_to_child(event)
        if not (is_own and is_past):
            self._questions.ask_next(is_busy=False)


class _Terminal:
    """Satisfies `Asking`."""

    def __init__(self, client: Client) -> None:
        self.watched = _Readers()
        self._client = client
        self._sending: set[asyncio.Task[None]] = set()

    def tell(self, kind: str, payload: Fields, session_id: str, on_refusal: Callable[[ProtocolError], None]) -> None:
        del kind  # FormQuestions only answers
        request = msgspec.convert(payload, AnswerQuestion)
        task = asyncio.get_running_loop().create_task(self._send(request, session_id, on_refusal))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _send(
        self, request: AnswerQuestion, session_id: str, on_refusal: Callable[[ProtocolError], None]
    ) -> None:
        try:
            await self._client.request(request, AcceptedReply, session_id)
        except ProtocolError as refusal:
            on_refusal(refusal)
        except ConnectionError:
            return  # the loop that reads events says so


class _Readers:
    """Satisfies `WatchedInput`, by the event loop."""

    def __setitem__(self, fd: int, read: Callable[[], None], /) -> None:
        asyncio.get_running_loop().add_reader(fd, read)

    def pop(self, fd: int, default: None, /) -> object:
        asyncio.get_running_loop().remove_reader(fd)
        return default
