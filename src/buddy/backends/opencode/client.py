"""The requests that one conversation sends to OpenCode's server."""

from contextlib import suppress

from buddy.backends.external import lenient
from buddy.backends.external.contract import PermissionAnswer
from buddy.backends.opencode.server import OpenCodeServer
from buddy.backends.opencode.wire import Json, NotFound, read_list, read_object


class SessionClient:
    def __init__(self, server: OpenCodeServer, session_id: str, directory: str) -> None:
        self.session_id = session_id
        self.directory = directory
        self._server = server

    async def prompt(self, body: Json) -> None:
        await self._call("POST", f"/session/{self.session_id}/prompt_async", body)

    async def abort(self) -> None:
        with suppress(NotFound):
            await self._call("POST", f"/session/{self.session_id}/abort")

    async def is_busy(self) -> bool:
        """Whether the session is at work; the server lists only those that are."""
        return self.session_id in read_object(await self._call("GET", "/session/status"))

    async def children(self) -> set[str]:
        """The sessions of its sub-agents."""
        children = read_list(await self._call("GET", f"/session/{self.session_id}/children"))
        return {lenient.text(child.get("id")) for child in children}

    async def messages(self, session_id: str) -> list[Json]:
        try:
            return read_list(await self._call("GET", f"/session/{session_id}/message"))
        except NotFound:
            return []

    async def pending_permissions(self) -> list[Json]:
        return read_list(await self._call("GET", "/permission"))

    async def reply_to_permission(self, asked: Json, answer: PermissionAnswer) -> None:
        """A denial needs a message for the model; without one it would stop working."""
        request_id, session_id = lenient.text(asked.get("id")), lenient.text(asked.get("sessionID"))
        word = "once" if answer.approved else "reject"
        body: Json = {"reply": word} if answer.approved else {"reply": word, "message": answer.reason or "denied"}
        try:
            await self._call("POST", f"/permission/{request_id}/reply", body)
        except NotFound:  # an older server, or the request is no longer pending
            with suppress(NotFound):
                await self._call("POST", f"/session/{session_id}/permissions/{request_id}", {"response": word})

    async def reject_question(self, question_id: str) -> None:
        with suppress(NotFound):
            await self._call("POST", f"/question/{question_id}/reject")

    async def _call(self, method: str, path: str, body: object = None) -> bytes:
        return await self._server.call(method, path, self.directory, body)
