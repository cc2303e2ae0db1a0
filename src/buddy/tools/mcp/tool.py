"""A tool of an MCP server.

Invariants: it is privileged, whatever its server says of it; what a person approves names the server, the tool, all
arguments and the definition, and a call whose tool was defined differently meanwhile is not made.
"""

import hashlib
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import asdict

from buddy.errors import ToolError
from buddy.protocol.codes import Source, Tier
from buddy.protocol.intents import Other
from buddy.tools.contract import Call, DescribesArguments, Output, Place
from buddy.tools.mcp.connection import ServerConnection
from buddy.tools.mcp.contract import Caller, ToolDefinition
from buddy.tools.mcp.definitions import ServerDefinition

SUMMARY = 200
TUNING = frozenset({"startup_seconds", "timeout_seconds", "enabled_tools", "disabled_tools"})
"""Settings of a server that do not change what its tools do."""


class McpArguments(Struct, frozen=True):
    """What the model sent, and the digest of the definition that it was sent for."""

    given: dict[str, Any]
    definition: str


class McpTool(DescribesArguments):
    tier: Tier = "privileged"
    source: Source = "unknown"
    args: type[Struct] = McpArguments
    timeout: float | None = None  # each server has its own, which does not count the time that a person is asked

    def __init__(
        self, name: str, connection: ServerConnection, definition: ToolDefinition, *, is_deferred: bool = False
    ) -> None:
        self.name: str = name
        self.is_deferred: bool = is_deferred
        self.server: str = connection.definition.name
        self._connection = connection
        self._tool = definition.name
        self.description: str = definition.description or f"{definition.name} of the MCP server"
        self.parameters: dict[str, Any] = {"type": "object", **definition.parameters}

    def read_arguments(self, given: dict[str, object]) -> McpArguments:
        return McpArguments(given, self._current())

    async def intent(self, args: McpArguments, place: Place) -> Other:  # noqa: ARG002 - a server is not on a target
        server = self._connection.definition
        shown = {
            "server": server.name,
            "reachedBy": server.describe(),
            "tool": self._tool,
            "arguments": args.given,
            "definition": args.definition,
        }
        text = msgspec.json.encode(args.given).decode()
        summary = f"{server.name}: {self._tool} {text if len(text) <= SUMMARY else text[: SUMMARY - 1] + '…'}"
        title = f"use {self._tool} of the MCP server {server.name}"
        # The server runs outside of every sandbox, wherever the session's own commands run.
        return Other(
            title=title,
            summary=summary,
            target="local",
            sandbox="host",
            shown=shown,
            definition=identity(server, args.definition),
        )

    async def run(self, args: McpArguments, call: Call) -> Output:
        def check() -> None:
            if self._current() != args.definition:
                raise ToolError(f"{self.name} was redefined by its server, so it was not called; look at it again")

        async def report(text: str) -> None:
            await call.on_output("stdout", f"{text}\n".encode(errors="replace"))

        caller = Caller(call.session_id, report, call.ask)
        return await self._connection.call(self._tool, args.given, caller, check)

    def _current(self) -> str:
        found = self._connection.find(self._tool)
        if found is None:
            raise ToolError(f"MCP server {self._connection.definition.name!r} no longer has a tool {self._tool!r}")
        return found.digest()


def identity(server: ServerDefinition, definition: str) -> str:
    """A tool and where it comes from, then all that decides what the server does: its files, environment and address.

    The start is the same for every later definition, so that a new permission replaces the old one.
    """
    decisive = {key: value for key, value in asdict(server).items() if key not in TUNING}
    return f"{_hash(server.name, server.origin)[:8]}-{_hash(decisive, definition)[:16]}"


def _hash(*parts: object) -> str:
    return hashlib.sha256(msgspec.json.encode(parts, order="sorted")).hexdigest()
