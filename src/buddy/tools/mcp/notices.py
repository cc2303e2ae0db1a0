"""What the user of a session should know about its MCP servers, each thing once."""

from collections.abc import Callable, Iterable

from msgspec import Struct

from buddy.tools.mcp.connection import ServerConnection
from buddy.tools.mcp.definitions import Definitions

Warn = Callable[[str, str, str | None], None]
SHOWN = 300


class _Seen(Struct):
    state: str = ""
    starts: int = 0
    digests: dict[str, str] = {}
    skipped: tuple[str, ...] = ()


class Notices:
    """Those of one session."""

    def __init__(self) -> None:
        self._seen: dict[ServerConnection, _Seen] = {}
        self._problems: set[tuple[str, str]] = set()

    def knows(self, connection: ServerConnection) -> bool:
        return connection in self._seen

    def tell(self, connections: Iterable[ServerConnection], definitions: Definitions, warn: Warn) -> None:
        for name, problem in (*definitions.problems, *definitions.notes):
            if (name, problem) not in self._problems:
                self._problems.add((name, problem))
                warn("MCP_CONFIG", f"MCP server {name!r}: {problem}", None)
        for connection in connections:
            self._tell(connection, self._seen.setdefault(connection, _Seen()), warn)

    def _tell(self, connection: ServerConnection, seen: _Seen, warn: Warn) -> None:
        name, state = connection.definition.name, connection.state
        if state == "ready":
            self._tell_ready(connection, seen, warn)
        elif state != seen.state and state == "starting":
            if seen.starts:
                warn("MCP_SERVER_LOST", f"MCP server {name!r} ended: {connection.problem}. It is being restarted", None)
            else:
                warn("MCP_SERVER_STARTING", f"MCP server {name!r} is still starting; its tools are added later", None)
        elif state != seen.state and state == "needs_login":
            warn("MCP_NEEDS_LOGIN", f"MCP server {name!r} needs a login", f"buddy mcp login {name}")
        elif state != seen.state and state == "failed" and seen.state != "lost":
            said = connection.stderr[-SHOWN:].strip()
            problem = connection.problem + (f"; it wrote: {said}" if said else "")
            warn("MCP_SERVER_FAILED", f"MCP server {name!r} is not available: {problem}", f"buddy mcp test {name}")
        seen.state = state

    def _tell_ready(self, connection: ServerConnection, seen: _Seen, warn: Warn) -> None:
        name = connection.definition.name
        digests = {tool.name: tool.digest() for tool in connection.tools}
        if seen.starts and connection.starts > seen.starts:
            warn("MCP_SERVER_RESTARTED", f"MCP server {name!r} ended and was restarted", None)
        elif seen.state and seen.state != "ready":
            warn("MCP_SERVER_READY", f"MCP server {name!r} is ready: {_count(digests)}", None)
        elif seen.starts and digests != seen.digests:
            warn("MCP_TOOLS_CHANGED", f"MCP server {name!r} changed its tools: {_changes(seen.digests, digests)}", None)
        if connection.skipped != seen.skipped:
            warn(
                "MCP_TOOLS_SKIPPED", f"MCP server {name!r}: not offered: {'; '.join(connection.skipped)[:SHOWN]}", None
            )
        seen.starts, seen.digests, seen.skipped = connection.starts, digests, connection.skipped


def _count(tools: dict[str, str]) -> str:
    return "1 tool" if len(tools) == 1 else f"{len(tools)} tools"


def _changes(before: dict[str, str], after: dict[str, str]) -> str:
    added = [f"+{name}" for name in after if name not in before]
    removed = [f"-{name}" for name in before if name not in after]
    redefined = [f"{name} was redefined" for name in after if name in before and before[name] != after[name]]
    return ", ".join([*added, *removed, *redefined])[:SHOWN]
