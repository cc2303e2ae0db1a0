"""Agents of the program that Buddy runs in: one made of a function, and one that several runtimes share.

Invariants: a message has exactly one completion, whatever its function does; a function that raises fails its message,
not the session; the owner of a shared agent closes it.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from buddy.backends.external.contract import (
    Agent,
    AgentEvent,
    AgentImage,
    AgentRequest,
    AgentResult,
    Completion,
    Executor,
    Permission,
    PermissionAnswer,
    once,
)
from buddy.backends.external.event_channel import EventChannel
from buddy.errors import ProviderError, UserError
from buddy.protocol.codes import ApprovalKind
from buddy.targets.contract import Target


class Turn:
    """One message for a function, and its way to ask before it does something."""

    def __init__(
        self,
        text: str,
        session_id: str,
        request: AgentRequest,
        conversation: "_Conversation",
        images: Sequence[AgentImage] = (),
    ) -> None:
        self.text = text
        self.images = tuple(images)
        self.session_id = session_id
        self.cwd = request.cwd
        self.plan = request.plan
        self.model = request.model
        self._conversation = conversation

    async def ask(
        self,
        call_id: str,
        name: str,
        kind: ApprovalKind = "tool",
        *,
        command: str = "",
        path: str = "",
        url: str = "",
        args: dict[str, Any] | None = None,
    ) -> PermissionAnswer:
        """Have a call decided; it may start only if the answer is approved."""
        decided: asyncio.Future[PermissionAnswer] = asyncio.get_running_loop().create_future()

        async def reply(answer: PermissionAnswer) -> None:
            if not decided.done():
                decided.set_result(answer)

        await self._conversation.publish(
            Permission(call_id, name, kind, reply, args or {}, command=command, path=path, url=url)
        )
        return await decided


Work = Callable[[Turn], AsyncIterator[AgentEvent]]
"""What a function agent does with a message: it yields what happens, in order."""


class FunctionAgent:
    """Satisfies `Agent` with one asynchronous generator."""

    reports_cost = False

    def __init__(self, name: str, work: Work, *, takes_images: bool = False) -> None:
        """`takes_images`: whether the function uses `Turn.images`; otherwise they are described in its text."""
        self.name = name
        self._work = work
        self._takes_images = takes_images

    @property
    def is_available(self) -> bool:
        return True

    def check(self) -> None:
        """Nothing has to be installed."""

    async def is_priced(self, model: str | None, cwd: str) -> bool:  # noqa: ARG002 - the contract's
        return self.reports_cost

    async def start(self, target: Target, project: str) -> None:
        """It runs in this process."""

    async def execute(self, request: AgentRequest) -> Executor:
        conversation = _Conversation(self._work, request, takes_images=self._takes_images)
        if request.text:
            await conversation.send_message(request.text)
        return conversation

    async def execute_once(self, request: AgentRequest) -> AgentResult:
        return await once(self, request)

    async def ping(self) -> None:
        """It is here."""

    async def close(self) -> None:
        """Each conversation is closed by its session."""


class _Conversation(EventChannel):
    """Satisfies `Executor`."""

    def __init__(self, work: Work, request: AgentRequest, *, takes_images: bool) -> None:
        super().__init__()
        self.takes_images = takes_images
        self.backend_session_id = request.session_id or f"own-{secrets.token_hex(8)}"
        self.is_closed = False
        self._work = work
        self._request = request
        self._task: asyncio.Task[None] | None = None

    async def send_message(self, text: str) -> None:
        await self.send_with_images(text, ())

    async def send_with_images(self, text: str, images: Sequence[AgentImage]) -> None:
        if not self.reopen():
            raise ProviderError("the conversation is closed", retryable=False)
        turn = Turn(text, self.backend_session_id, self._request, self, images)
        self._task = asyncio.create_task(self._perform(turn, self._task))

    async def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def wait(self) -> int:
        await self.done.wait()
        return 0

    async def close(self) -> None:
        self.is_closed = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
        self.end()

    async def _perform(self, turn: Turn, before: "asyncio.Task[None] | None") -> None:
        completion = Completion("cancelled")
        try:
            if before is not None:
                await asyncio.wait({before})
            async for event in self._work(turn):
                await self.publish(event)
            completion = Completion()
        except asyncio.CancelledError:
            pass
        except Exception as error:  # noqa: BLE001 - the program's own code may raise anything
            completion = Completion("error", error=f"{type(error).__name__}: {error}")
        await self.publish(completion)


class SharedAgent:
    """Satisfies `Agent` with one that is shared: started by its first user, closed only by its owner."""

    def __init__(self, agent: Agent) -> None:
        self.name = agent.name
        self.reports_cost = agent.reports_cost
        self._agent = agent
        self._target = ""
        self._starting = asyncio.Lock()

    @property
    def is_available(self) -> bool:
        return self._agent.is_available

    def check(self) -> None:
        self._agent.check()

    async def is_priced(self, model: str | None, cwd: str) -> bool:
        return await self._agent.is_priced(model, cwd)

    async def start(self, target: Target, project: str) -> None:
        async with self._starting:
            if not self._target:
                await self._agent.start(target, project)
                self._target = target.name
        if self._target != target.name:
            raise UserError(f"{self.name} is shared and runs on {self._target}", hint="use that target")

    async def execute(self, request: AgentRequest) -> Executor:
        return await self._agent.execute(request)

    async def execute_once(self, request: AgentRequest) -> AgentResult:
        return await self._agent.execute_once(request)

    async def ping(self) -> None:
        await self._agent.ping()

    async def close(self) -> None:
        """Others may still use it."""
