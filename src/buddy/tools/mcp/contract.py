"""What is known of an MCP server, without the SDK: that is loaded only when a server is configured.

Invariants: what a server says of its own tools is data; nothing here gives a tool more rights because of it.
"""

import hashlib
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal, Protocol

import msgspec
from msgspec import Struct

from buddy.errors import BuddyError
from buddy.protocol.question_events import PersonAnswer, PersonQuestion
from buddy.tools.contract import Output
from buddy.tools.mcp.definitions import ServerDefinition

State = Literal["starting", "ready", "failed", "needs_login", "stopped"]
Report = Callable[[str], Awaitable[None]]
"""Receives the progress of a call, as text."""


class Caller(Struct, frozen=True):
    """Who calls: the session, where progress goes, and how its user is asked for data."""

    session_id: str
    report: Report
    ask: Callable[[PersonQuestion], Awaitable[PersonAnswer]]


class ServerFailed(BuddyError):
    """A server could not be started or reached."""


class NeedsLogin(ServerFailed):
    """A server wants a login that nobody has done yet."""


class ConnectionLost(ServerFailed):
    """The connection ended while a request was under way, so nobody knows how far it came."""


class ToolDefinition(Struct, frozen=True):
    """A tool as its server describes it."""

    name: str
    description: str
    parameters: dict[str, Any]

    def digest(self) -> str:
        """Changes with everything that a model or a person is shown of it."""
        text = msgspec.json.encode((self.name, self.description, self.parameters), order="sorted")
        return hashlib.sha256(text).hexdigest()[:16]


class PromptDefinition(Struct, frozen=True):
    """A prompt that a server offers, and the names of its arguments."""

    name: str
    description: str = ""
    arguments: tuple[str, ...] = ()
    required: tuple[str, ...] = ()


class ServerSession(Protocol):
    """One connection to a server that has answered."""

    @property
    def tools(self) -> tuple[ToolDefinition, ...]: ...

    @property
    def prompts(self) -> tuple[PromptDefinition, ...]: ...

    @property
    def skipped(self) -> tuple[str, ...]:
        """Why tools of the server are not offered."""
        ...

    @property
    def server(self) -> str:
        """Its own name and version, and the version of the protocol."""
        ...

    @property
    def is_usable(self) -> bool:
        """Whether a request would be sent."""
        ...

    async def call(self, name: str, arguments: dict[str, Any], seconds: float, caller: Caller) -> Output:
        """Call a tool. ToolError where the server refuses; ConnectionLost where its answer cannot come any more."""
        ...

    async def read_resource(self, uri: str, seconds: float) -> str:
        """A resource as text; ToolError where the server refuses."""
        ...

    async def get_prompt(self, name: str, arguments: dict[str, str], seconds: float) -> str:
        """The messages of a prompt as text; ToolError where the server refuses."""
        ...

    async def refresh(self) -> None:
        """List the tools and prompts again."""
        ...

    async def wait_changed(self) -> None:
        """Until the server says that its tools have changed."""
        ...

    async def wait_ended(self) -> str:
        """Until the connection is of no more use; returns why."""
        ...


Connect = Callable[[ServerDefinition, "ServerStderr"], AbstractAsyncContextManager[ServerSession]]


class ServerStderr:
    """The end of what a server wrote to stderr; it survives the server."""

    def __init__(self) -> None:
        self.read: Callable[[], str] = str

    def text(self) -> str:
        return self.read()
