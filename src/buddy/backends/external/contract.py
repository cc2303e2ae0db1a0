"""What another agent is to us: something that is started on a target, takes messages, and tells what it does.

Invariants: an agent's own wire ends here. Whatever it speaks, an executor tells the same few events, each of
them once, in order; ids that it invented are only looked at, never trusted to be unique beyond one session of its own.
"""

import asyncio
import shlex
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Literal, Protocol

from msgspec import Struct, field

from buddy.protocol.codes import ApprovalKind
from buddy.targets.contract import Target


class AgentRequest(Struct, frozen=True):
    """A message for an agent. `session_id` is the agent's own: with it, that conversation goes on."""

    text: str
    cwd: str
    nonce: str
    session_id: str | None = None
    plan: bool = False
    model: str | None = None
    instructions: str | None = None


class AgentResult(Struct, frozen=True):
    """What came of a message that was sent alone."""

    session_id: str
    text: str
    reason: str


# --- what an executor tells ------------------------------------------------------------------------------------------


class SystemNote(Struct, frozen=True, tag="system"):
    """Something of the agent's own that a person may want to see."""

    text: str


class Delta(Struct, frozen=True, tag="delta"):
    """A piece of what it says, or with `thinking` of what it thinks."""

    text: str
    message_id: str = ""
    thinking: bool = False


class Message(Struct, frozen=True, tag="message"):
    """A whole message; what of it came as deltas under the same id is not said again."""

    text: str
    message_id: str = ""
    role: Literal["assistant"] = "assistant"


class ToolStarted(Struct, frozen=True, tag="tool_call"):
    call_id: str
    name: str
    args: dict[str, Any] = field(default_factory=dict[str, Any])


class ToolProgress(Struct, frozen=True, tag="tool_progress"):
    call_id: str
    text: str


class ToolEnded(Struct, frozen=True, tag="tool_result"):
    call_id: str
    text: str
    is_error: bool = False


def command_in(command: str, where: str, directory: str) -> str:
    """A command as it runs from the workspace."""
    return command if where.rstrip("/") in ("", ".", directory.rstrip("/")) else f"cd {shlex.quote(where)} && {command}"


class PermissionAnswer(Struct, frozen=True):
    """The decision on a permission request, for the agent."""

    approved: bool
    comment: str = ""


class Permission(Struct, frozen=True, tag="permission"):
    """May it? Answered exactly once through `reply`. `details` is everything it showed of what would be done.

    `command`, `path` and `url` are what our rules look at, by `kind`; `more_paths` belong to the same change, and each
    has to be allowed.
    """

    call_id: str
    name: str
    kind: ApprovalKind
    reply: Callable[[PermissionAnswer], Awaitable[None]]
    args: dict[str, Any] = field(default_factory=dict[str, Any])
    details: dict[str, Any] = field(default_factory=dict[str, Any])
    command: str = ""
    path: str = ""
    url: str = ""
    more_paths: tuple[str, ...] = ()


class UsageReport(Struct, frozen=True, tag="usage"):
    """What was used since it was told last."""

    input_tokens: int
    output_tokens: int
    cached_tokens: int | None = None
    cost_usd: float | None = None
    context_limit: int | None = None
    context_used: int | None = None


class Completion(Struct, frozen=True, tag="completion"):
    """A message was worked off: once for each that was sent, whatever came of it."""

    reason: Literal["completed", "cancelled", "error", "truncated"] = "completed"
    text: str = ""
    error: str = ""


class Failure(Struct, frozen=True, tag="error"):
    """Something went wrong; only a completion or the end of the events says that the work is over."""

    message: str


AgentEvent = (
    SystemNote
    | Delta
    | Message
    | ToolStarted
    | ToolProgress
    | ToolEnded
    | Permission
    | UsageReport
    | Completion
    | Failure
)


class Executor(Protocol):
    """One conversation with an agent."""

    @property
    def backend_session_id(self) -> str: ...

    async def send_message(self, text: str) -> None:
        """Have it work on a message; ProviderError where it cannot be reached any more."""
        ...

    async def cancel(self) -> None:
        """Interrupt what it works on; its completion follows."""
        ...

    def events(self) -> AsyncIterator[AgentEvent]:
        """What happens, until the agent is gone; a later iteration goes on where one was left."""
        ...

    @property
    def errors(self) -> deque[Exception]:
        """What could not be understood of what it said, the newest last."""
        ...

    @property
    def done(self) -> asyncio.Event:
        """Set when nothing more will come."""
        ...

    async def wait(self) -> int:
        """Wait until it is gone; its exit code, 0 where it has none."""
        ...

    async def close(self) -> None:
        """Interrupt it and let go of everything that was started for it."""
        ...

    @property
    def is_closed(self) -> bool: ...


class Agent(Protocol):
    """An agent runtime on one target, for any number of conversations."""

    name: str
    reports_cost: bool

    @property
    def is_available(self) -> bool:
        """Its program is found and its credentials are there."""
        ...

    def check(self) -> None:
        """UserError, with what to do, where it is not available."""
        ...

    async def start(self, target: Target, project: str) -> None:
        """Be ready for `execute`; UserError where a program or credentials are missing."""
        ...

    async def execute(self, request: AgentRequest) -> Executor:
        """A conversation with the request's text under way; without text it only waits for `send_message`.

        SessionLost where `session_id` cannot be gone on with.
        """
        ...

    async def execute_once(self, request: AgentRequest) -> AgentResult:
        """One message, its answer, and nothing left behind."""
        ...

    async def ping(self) -> None:
        """ProviderError where it does not answer."""
        ...

    async def close(self) -> None: ...


class SessionLost(Exception):
    """The agent no longer knows the session that was to be continued."""


async def once(agent: Agent, request: AgentRequest) -> AgentResult:
    """`execute_once` for an agent that streams: questions are answered with no, as nobody is there."""
    executor = await agent.execute(request)
    said: list[str] = []
    try:
        async for event in executor.events():
            match event:
                case Message():
                    said = [event.text]
                case Permission():
                    await event.reply(PermissionAnswer(approved=False, comment="nobody is there to ask"))
                case Completion():
                    return AgentResult(executor.backend_session_id, event.text or "".join(said), event.reason)
                case _:
                    pass
        return AgentResult(executor.backend_session_id, "".join(said), "error")
    finally:
        await executor.close()
