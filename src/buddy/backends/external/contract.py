"""The interface to external agents: started on a target, they take messages and report events.

Invariants: an agent's own protocol ends here. Every executor reports the same few events, each once and in order;
ids from an agent are never assumed to be unique beyond one of its sessions.
"""

import asyncio
import shlex
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Literal, Protocol, runtime_checkable

from msgspec import Struct, field

from buddy.protocol.codes import ApprovalKind
from buddy.targets.contract import Target


class AgentRequest(Struct, frozen=True):
    """A message for an agent. `session_id` is the agent's own and resumes that conversation."""

    text: str
    cwd: str
    nonce: str
    session_id: str | None = None
    plan: bool = False
    model: str | None = None
    instructions: str | None = None
    unsafe: bool = False
    """Whether to go on even if it cannot be held to plan mode."""


class AgentImage(Struct, frozen=True):
    """An image of a message; `data` is base64."""

    media_type: str
    data: str
    name: str = ""


class AgentResult(Struct, frozen=True):
    """The outcome of a single message."""

    session_id: str
    text: str
    reason: str


# --- what an executor reports ---------------------------------------------------------------------------------------


class SystemNote(Struct, frozen=True, tag="system"):
    """An agent-specific notice that a person may want to see."""

    text: str


class Delta(Struct, frozen=True, tag="delta"):
    """A piece of its reply, or of its reasoning with `thinking`."""

    text: str
    message_id: str = ""
    thinking: bool = False


class Message(Struct, frozen=True, tag="message"):
    """A complete message; text that came as deltas under the same id is not repeated."""

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
    """The command line that runs `command` in `where`, seen from the workspace."""
    return command if where.rstrip("/") in ("", ".", directory.rstrip("/")) else f"cd {shlex.quote(where)} && {command}"


class PermissionAnswer(Struct, frozen=True):
    """The decision on a permission request, as sent to the agent."""

    approved: bool
    comment: str = ""
    by: str = ""

    @property
    def reason(self) -> str:
        """Why it was denied; empty if it was approved."""
        return "" if self.approved else self.comment or (f"denied by {self.by}" if self.by else "")


class Permission(Struct, frozen=True, tag="permission"):
    """A permission request, answered exactly once through `reply`. `details` is everything the agent showed.

    `command`, `path` and `url` are matched by our rules, depending on `kind`; `more_paths` belong to the same change,
    and each must be allowed.
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
    """Usage since the previous report."""

    input_tokens: int
    output_tokens: int
    cached_tokens: int | None = None
    cost_usd: float | None = None
    context_limit: int | None = None
    context_used: int | None = None


class Completion(Struct, frozen=True, tag="completion"):
    """A message is done: exactly one for each message sent, whatever the outcome."""

    reason: Literal["completed", "cancelled", "error", "truncated"] = "completed"
    text: str = ""
    error: str = ""


class Failure(Struct, frozen=True, tag="error"):
    """An error; only a completion or the end of the events means that the work is over."""

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
        """Send a message to work on; ProviderError if the agent can no longer be reached."""
        ...

    async def cancel(self) -> None:
        """Interrupt its current work; the completion follows, and with it `done`."""
        ...

    def events(self) -> AsyncIterator[AgentEvent]:
        """Events until the agent is gone; a later iteration continues where the previous one stopped."""
        ...

    @property
    def errors(self) -> deque[Exception]:
        """Protocol errors, newest last."""
        ...

    @property
    def done(self) -> asyncio.Event:
        """Set when nothing more will come: it is gone, or its work was cancelled and nothing was sent since."""
        ...

    @property
    def can_continue(self) -> bool:
        """Whether it takes another message."""
        ...

    async def wait(self) -> int:
        """Wait until it is done; returns its exit code, or 0 if it has none or still runs."""
        ...

    async def close(self) -> None:
        """Interrupt it and release everything started for it."""
        ...

    @property
    def is_closed(self) -> bool: ...


@runtime_checkable
class SeeingExecutor(Protocol):
    """An executor that may take images with a message."""

    @property
    def takes_images(self) -> bool: ...

    async def send_with_images(self, text: str, images: Sequence[AgentImage]) -> None:
        """As `send_message`; either the text or the images may be missing."""
        ...


class Agent(Protocol):
    """An agent runtime on one target, for any number of conversations."""

    name: str
    reports_cost: bool

    @property
    def is_available(self) -> bool:
        """Its program is installed and its credentials exist."""
        ...

    async def is_priced(self, model: str | None, cwd: str) -> bool:
        """Whether it reports what a model costs; without one, the model that it would choose."""
        ...

    def check(self) -> None:
        """Raise UserError with a hint if it is not available."""
        ...

    async def start(self, target: Target, project: str) -> None:
        """Prepare for `execute`; UserError if a program or credentials are missing."""
        ...

    async def execute(self, request: AgentRequest) -> Executor:
        """Start a conversation with the request's text; without text it waits for `send_message`.

        SessionLost if `session_id` cannot be resumed.
        """
        ...

    async def execute_once(self, request: AgentRequest) -> AgentResult:
        """Send one message, return its answer and leave nothing behind."""
        ...

    async def ping(self) -> None:
        """ProviderError if it does not respond."""
        ...

    async def close(self) -> None: ...


class SessionLost(Exception):
    """The agent no longer knows the session to resume."""


async def once(agent: Agent, request: AgentRequest) -> AgentResult:
    """`execute_once` for a streaming agent: permission requests are denied, as nobody can answer."""
    executor = await agent.execute(request)
    said: list[str] = []
    try:
        async for event in executor.events():
            match event:
                case Message():
                    said = [event.text]
                case Permission():
                    await event.reply(PermissionAnswer(approved=False, comment="nobody is available to approve this"))
                case Completion():
                    return AgentResult(executor.backend_session_id, event.text or "".join(said), event.reason)
                case _:
                    pass
        return AgentResult(executor.backend_session_id, "".join(said), "error")
    finally:
        await executor.close()
