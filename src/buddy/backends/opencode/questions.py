"""Forwards OpenCode's permission requests and declines its questions to the user.

Invariants: a request is forwarded once, and only when the arguments of its call are known, which may arrive after it;
of a cancelled message nothing is approved any more.
"""

from collections.abc import Awaitable, Callable

from buddy.backends.external import lenient
from buddy.backends.external.contract import AgentEvent, PermissionAnswer, SystemNote, ToolEnded
from buddy.backends.opencode.client import SessionClient
from buddy.backends.opencode.event_mapper import Key, OpenCodeCall, OpenCodeEventMapper
from buddy.backends.opencode.permissions import permission_of
from buddy.backends.opencode.wire import Json


class OpenCodeQuestions:
    """`is_cancelled` says whether the current message was cancelled."""

    def __init__(
        self,
        client: SessionClient,
        publish: Callable[[AgentEvent], Awaitable[None]],
        is_cancelled: Callable[[], bool],
    ) -> None:
        self._client = client
        self._publish = publish
        self._is_cancelled = is_cancelled
        self._held: dict[Key, list[Json]] = {}
        """Requests whose call has not started yet."""
        self._seen: set[str] = set()
        self._granted: set[str] = set()

    def clear(self) -> None:
        """The message is done."""
        self._held.clear()
        self._seen.clear()
        self._granted.clear()

    async def take(self, asked: Json, mapper: OpenCodeEventMapper) -> None:
        request_id = lenient.text(asked.get("id"))
        if request_id in self._seen:
            return
        self._seen.add(request_id)
        tool = lenient.mapping(asked.get("tool"))
        key = lenient.text(tool.get("messageID")), lenient.text(tool.get("callID"))
        call = mapper.calls.get(key)
        if not key[1]:
            call_id, name = mapper.unused_id(request_id), lenient.text(asked.get("permission"))
            await self._ask(asked, OpenCodeCall(call_id, name))
        elif call is None or not call.is_started:
            self._held.setdefault(key, []).append(asked)
        elif not call.is_over:
            await self._ask(asked, call)

    async def release(self, key: Key, call: OpenCodeCall | None) -> None:
        """Forward the requests that waited for this call to start."""
        if call is not None and call.is_started:
            for asked in self._held.pop(key, []):
                await self._ask(asked, call)

    async def decline(self, asked: Json) -> None:
        """Nobody can answer a question during a run."""
        questions = [lenient.text(question.get("question")) for question in lenient.mappings(asked.get("questions"))]
        text = f"OpenCode asked a question that nobody is available to answer: {' '.join(questions)[:500]}"
        await self._publish(SystemNote(text))
        await self._client.reject_question(lenient.text(asked.get("id")))

    async def _ask(self, asked: Json, call: OpenCodeCall) -> None:
        async def reply(answer: PermissionAnswer) -> None:
            if answer.approved and permission.kind == "exec":
                self._granted.add(call.call_id)
            await self._client.reply_to_permission(asked, answer)
            if not asked.get("tool"):  # no call will report the end
                word = "allowed" if answer.approved else f"denied: {answer.reason}"
                await self._publish(ToolEnded(call.call_id, word, not answer.approved))

        call.is_asked = True
        permission = permission_of(asked, call, self._client.directory, reply)
        if self._is_cancelled():
            await self._client.reply_to_permission(asked, PermissionAnswer(approved=False, comment="cancelled"))
        elif call.call_id in self._granted:  # it asks about an outside directory first, then about the same command
            await self._client.reply_to_permission(asked, PermissionAnswer(approved=True))
        else:
            await self._publish(permission)
