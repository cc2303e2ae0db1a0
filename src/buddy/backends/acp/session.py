"""One conversation with an ACP agent: its process, the SDK connection, and its updates as our events.

Invariant: a denial does not end the work in silence. The protocol has no field for a comment, and many agents stop at a
denial without a word, so the agent is then prompted to continue without the call. An agent that reports success for
what was denied is ended.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from buddy.backends.acp.event_mapper import AcpEventMapper, usage_of
from buddy.backends.acp.opening import open_session
from buddy.backends.acp.transport import AcpTransport
from buddy.backends.external.contract import (
    AgentImage,
    AgentRequest,
    Completion,
    Delta,
    Failure,
    Permission,
    PermissionAnswer,
    ToolEnded,
)
from buddy.backends.external.event_channel import EventChannel
from buddy.backends.external.lenient import mapping, mappings, text
from buddy.errors import ProviderError, UserError
from buddy.targets.programs import Program

START_SECONDS = 60.0
CLOSE_SECONDS = 0.5
AUTH_REQUIRED = -32000
REASONS = {"end_turn": "completed", "cancelled": "cancelled", "max_tokens": "truncated"}


class AcpSession(EventChannel):
    """Satisfies `Executor`."""

    def __init__(self, program: Program, name: str, login: str) -> None:
        super().__init__()
        from acp.connection import Connection

        self._program = program
        self._name = name
        self._login = login
        self._mapper = AcpEventMapper()
        self._asked: set[asyncio.Future[PermissionAnswer]] = set()
        self._prompt: asyncio.Task[None] | None = None
        self._denials: list[str] = []
        """The comments on what was denied, empty or not, that the agent has not been told."""
        self._denied: set[str] = set()
        self._is_unsafe = False
        self._has_spoken = False
        self._is_cancelling = False
        self._is_open = False
        self._closed = False
        self._session_id = ""
        self.takes_images = False
        self._connection: Connection = Connection(self._handle, AcpTransport(program, self.errors.append))
        self._watch = asyncio.create_task(self._watch_exit())

    # --- opening ---------------------------------------------------------------------------------------------------

    async def open(self, request: AgentRequest) -> None:
        """Initialize the connection and start or resume a session of the agent."""
        self._mapper.directory = request.cwd
        self._is_unsafe = request.unsafe
        try:
            async with asyncio.timeout(START_SECONDS):
                self._session_id, self.takes_images = await open_session(self._name, self._ask, request)
        except TimeoutError:
            raise ProviderError(f"{self._name} did not answer within {START_SECONDS:g} s", retryable=True) from None
        except ConnectionError:
            code = await self._program.end()
            why = self._program.stderr_tail or (str(self.errors[-1]) if self.errors else "no output")
            raise ProviderError(
                f"{self._name} exited with code {code} while starting: {why}", retryable=False
            ) from None
        self._is_open = True

    async def _ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        from acp.exceptions import RequestError

        try:
            reply = await self._connection.send_request(method, params)
        except RequestError as error:
            if error.code == AUTH_REQUIRED:
                raise UserError(f"{self._name} requires a login", hint=self._login) from error
            raise ProviderError(f"{self._name} refused {method}: {error}", retryable=False) from error
        return mapping(reply)

    # --- executor ----------------------------------------------------------------------------------------------------

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
            raise ProviderError(f"{self._name} has exited: {self._program.stderr_tail}", retryable=False)
        self._is_cancelling = False
        before = self._prompt
        self._prompt = asyncio.create_task(self._work(_blocks(text, images), before))

    async def cancel(self) -> None:
        self._is_cancelling = True
        for asked in list(self._asked):
            asked.cancel()
        with suppress(ConnectionError):
            await self._connection.send_notification("session/cancel", {"sessionId": self._session_id})

    async def wait(self) -> int:
        await self.done.wait()
        return 0 if self.can_continue else await self._program.wait()

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self.can_continue:
            await self.cancel()
        await self._connection.close()
        await self._program.end(grace=CLOSE_SECONDS)
        for task in (self._prompt, self._watch):
            if task is not None:
                task.cancel()
        self.end()

    # --- incoming ----------------------------------------------------------------------------------------------------

    async def _work(self, message: list[dict[str, str]], before: "asyncio.Task[None] | None") -> None:
        """One prompt at a time: the protocol allows no concurrent prompts."""
        if before is not None:
            await asyncio.wait({before})
        self._denials.clear()
        try:
            stop = await self._prompt_with(message)
            while follow_up := self._after_denial(stop):
                stop = await self._prompt_with(_blocks(follow_up))
        except ConnectionError:
            # The end of the events reports it. An agent that closed stdout but keeps running would block forever.
            await self._program.end()
            return
        except (ProviderError, UserError) as error:
            await self.publish(Completion("error", error=str(error)))
            return
        match REASONS.get(stop):
            case "completed" | "cancelled" | "truncated" as reason:
                await self.publish(Completion(reason))
            case _:
                await self.publish(Completion("error", error=f"{self._name} stopped: {stop}"))

    async def _prompt_with(self, message: list[dict[str, str]]) -> str:
        """Why the agent stopped."""
        reply = await self._ask("session/prompt", {"sessionId": self._session_id, "prompt": message})
        for event in usage_of(reply):
            await self.publish(event)
        return str(reply.get("stopReason"))

    def _after_denial(self, stop: str) -> str:
        """What to prompt the agent with because of what was denied; empty if it can go without."""
        denials, self._denials = self._denials, []
        comments = [comment for comment in denials if comment]
        if not denials or self._is_cancelling or REASONS.get(stop) not in ("completed", "cancelled"):
            return ""
        if not comments and self._has_spoken:
            return ""
        return " ".join(["That was not allowed.", *comments, "Continue without it."])

    async def _handle(self, method: str, params: Any, is_notification: bool) -> dict[str, Any] | None:
        said = mapping(params)
        match method:
            case "session/update":
                await self._update(said)
            case "session/request_permission":
                return await self._permission(said)
            case _ if is_notification:
                pass
            case _:
                from acp.exceptions import RequestError

                raise RequestError.method_not_found(method)
        return None

    async def _update(self, said: dict[str, Any]) -> None:
        """A resumed session repeats its history, which is ignored."""
        if self._is_open and said.get("sessionId") == self._session_id:
            for event in self._mapper.read(mapping(said.get("update"))):
                self._has_spoken = self._has_spoken or (isinstance(event, Delta) and not event.thinking)
                await self.publish(event)
                if isinstance(event, ToolEnded) and event.call_id in self._denied and not event.is_error:
                    await self._object(event.call_id)

    async def _object(self, call_id: str) -> None:
        """It did what was denied: it can't be held to our decisions, so it goes no further."""
        why = f"{self._name} reports that it did what was denied (call {call_id[:80]})"
        if self._is_unsafe or self._prompt is None:
            await self.publish(Failure(why))
            return
        self._prompt.cancel()
        await self.publish(Completion("error", error=f"{why}; it is only used with --unsafe-agent"))
        self.end()
        self._program.kill()

    async def _permission(self, said: dict[str, Any]) -> dict[str, Any]:
        call = mapping(said.get("toolCall"))
        if said.get("sessionId") != self._session_id or not call:
            return {"outcome": {"outcome": "cancelled"}}
        events, about = self._mapper.permission_subject(call)
        for event in events:
            await self.publish(event)
        answer: asyncio.Future[PermissionAnswer] = asyncio.get_running_loop().create_future()

        async def reply(decision: PermissionAnswer) -> None:
            if not answer.done():
                answer.set_result(decision)

        self._asked.add(answer)
        call_id = text(call.get("toolCallId"))
        await self.publish(
            Permission(
                call_id,
                about.name,
                about.kind,
                reply,
                about.args,
                about.details,
                about.command,
                about.path,
                about.url,
                about.more_paths,
            )
        )
        try:
            decided = await answer
        except asyncio.CancelledError:
            return {"outcome": {"outcome": "cancelled"}}
        finally:
            self._asked.discard(answer)
        if not decided.approved:
            self._denials.append(decided.comment)
            self._denied.add(call_id)
            self._has_spoken = False
        return await self._outcome(said, approved=decided.approved)

    async def _outcome(self, said: dict[str, Any], *, approved: bool) -> dict[str, Any]:
        wanted = "allow_once" if approved else "reject_once"
        for option in mappings(said.get("options")):
            if option.get("kind") == wanted:
                return {"outcome": {"outcome": "selected", "optionId": option.get("optionId")}}
        if approved:
            # "Always" would grant more than was approved.
            await self.publish(Failure(f"{self._name} offers no way to allow this once, so it is denied"))
        return {"outcome": {"outcome": "cancelled"}}

    async def _watch_exit(self) -> None:
        code = await self._program.wait()
        if stderr_tail := self._program.stderr_tail:
            self.errors.append(RuntimeError(f"{stderr_tail} (exit code {code})"))
        await asyncio.sleep(0.05)  # its last messages may still be in the connection
        self.end()


def _blocks(text: str, images: Sequence[AgentImage] = ()) -> list[dict[str, str]]:
    """The content of a prompt."""
    shown = [{"type": "image", "mimeType": image.media_type, "data": image.data} for image in images]
    return [{"type": "text", "text": text}, *shown] if text or not shown else shown
