"""MCP for a runtime: nothing of it is loaded before a server is configured."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from buddy.config.mcp import McpServer
from buddy.config.settings import Config
from buddy.protocol.command_requests import CommandInfo
from buddy.tools.registry import Registry
from buddy.tools.source import Recent, ToolScope

if TYPE_CHECKING:
    from buddy.tools.mcp.definitions import Definitions
    from buddy.tools.mcp.source import McpSource

PROJECT_FILE = ".mcp.json"
NOTHING = Registry(())
MAX_DESCRIPTION = 1024
MAX_HINT = 200


class McpHost(Struct, frozen=True):
    """What MCP needs of the runtime: the configuration, its judgements, and where secrets are registered."""

    config: Callable[[], Config]
    env: Mapping[str, str]
    owner: str
    is_trusted: Callable[[str], bool]
    is_open: Callable[[str], bool]
    hide: Callable[[str], None]
    tokens: Path | None = None
    """The folder of logins."""
    state_dir: Path | None = None


class DeferredMcp:
    """Satisfies `ToolSource`."""

    def __init__(self, host: McpHost) -> None:
        self._host = host
        self._source: McpSource | None = None
        self._is_used_here = Recent(lambda scope: self._is_used(scope.place.root))

    def start(self, session_id: str, root: str, *, is_local: bool) -> None:
        """Start the servers of a new session in the background."""
        if self._is_used(root):
            self._load().start(session_id, root, is_local=is_local)

    def offer(self, session_id: str, servers: Mapping[str, McpServer]) -> None:
        """Servers that a client brings for one session."""
        from buddy.tools.mcp.definitions import define

        self._load().offer(session_id, define(servers, None, "", str(Path.home())))

    async def tools(self, scope: ToolScope) -> Registry:
        if self._source is None and not self._is_used_here.of(scope):
            return NOTHING
        return await self._load().tools(scope)

    async def expand(self, text: str, root: str, *, is_local: bool) -> str | None:
        """A message with the prompt or the resources of servers that it names; None if it names none."""
        if not (text.startswith("/mcp__") or "@" in text) or not self._is_used(root):
            return None
        from buddy.tools.mcp.mentions import has_mention

        return await self._load().expand(text, root, is_local=is_local) if has_mention(text) else None

    def list_prompts(self, root: str) -> tuple[CommandInfo, ...]:
        """The prompts of servers that are running, as they are sent."""
        if self._source is None:
            return ()
        from buddy.tools.mcp.mentions import prompt_name

        return tuple(
            CommandInfo(
                prompt_name(server.name, prompt.name),
                "prompt",
                "project" if server.fingerprint or server.origin.endswith(f"/{PROJECT_FILE}") else "user",
                prompt.description[:MAX_DESCRIPTION],
                " ".join(prompt.arguments)[:MAX_HINT] or None,
            )
            for server, prompt in self._source.prompts(root)
        )

    async def close(self) -> None:
        if self._source is not None:
            await self._source.servers.close()

    def _is_used(self, root: str) -> bool:
        return bool(self._host.config().mcp.servers) or os.path.lexists(f"{root}/{PROJECT_FILE}")

    def _load(self) -> "McpSource":
        if self._source is None:
            from buddy.tools.mcp.leftovers import Marks
            from buddy.tools.mcp.servers import Servers
            from buddy.tools.mcp.source import McpSource

            host = self._host
            marks = Marks(host.state_dir / "mcp", host.owner) if host.state_dir else None
            if marks is not None:
                marks.end_leftovers()
            servers = Servers(host.is_open, host.owner, host.tokens, marks, host.hide)
            self._source = McpSource(servers, self._own, host.is_trusted, host.env, host.hide, self._limit)
        return self._source

    def _limit(self) -> int:
        return self._host.config().mcp.definitions_kib * 1024

    def _own(self) -> "Definitions":
        from buddy.tools.mcp.definitions import define

        config = self._host.config()
        return define(config.mcp.servers, self._host.env, config.source, str(Path.home()))
