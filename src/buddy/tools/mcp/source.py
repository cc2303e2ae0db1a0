"""The tools of a session's MCP servers, as they are now.

Invariants: a session never waits long for a server: one that is slow joins at a later turn, and the session's user is
informed; the same tools give the same registry; a project's servers count only while its folder is trusted.
"""

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache

import msgspec
from msgspec import Struct

from buddy.file_cache import FileCache
from buddy.tools.mcp.connection import ServerConnection
from buddy.tools.mcp.contract import PromptDefinition
from buddy.tools.mcp.definitions import PROJECT_FILE, Definitions, ServerDefinition, merge, read_project_file
from buddy.tools.mcp.mentions import expand
from buddy.tools.mcp.naming import name_tools
from buddy.tools.mcp.notices import Notices
from buddy.tools.mcp.search import SearchTools
from buddy.tools.mcp.servers import Servers
from buddy.tools.mcp.tool import McpTool
from buddy.tools.registry import Registry
from buddy.tools.source import REMEMBERED, ToolScope

FIRST_TURN_SECONDS = 5.0
DEFINITIONS = 24 * 1024
MAX_OFFERED = 1000
"""Sessions whose clients brought servers."""


class _Prompted(Struct, frozen=True):
    """What the tools of a session depend on: its servers with their versions, the limit, and what was looked for."""

    servers: tuple[tuple[ServerConnection, int], ...]
    limit: int
    loaded: frozenset[str]


class McpSource:
    """Satisfies `ToolSource`. `own` are the servers of the user's file, `is_trusted` judges a folder."""

    def __init__(
        self,
        servers: Servers,
        own: Callable[[], Definitions],
        is_trusted: Callable[[str], bool],
        env: Mapping[str, str],
        hide: Callable[[str], None] = lambda _: None,
        limit: Callable[[], int] = lambda: DEFINITIONS,
    ) -> None:
        """Definitions of more than `limit` bytes in all are not sent with prompts, but searched for."""
        self.servers = servers
        servers.on_closed = self.forget
        self._own = own
        self._is_trusted = is_trusted
        self._env = env
        self._hide = hide
        self._limit = limit
        self._notices: dict[str, Notices] = {}
        self._loaded: dict[str, frozenset[str]] = {}
        self._offered: dict[str, Definitions] = {}
        self._registry = lru_cache(REMEMBERED)(self._registry_of)
        self._projects = lru_cache(REMEMBERED)(self._project_of)

    def define(self, root: str, *, is_local: bool) -> Definitions:
        """The servers of a session that works there."""
        own = self._own()
        if not is_local or not _has_project_file(root) or not self._is_trusted(root):
            return own
        # Read before it is judged once more, and still the same after that: what counts is what was judged.
        project = self._projects(root)
        found = project.get()
        is_judged = self._is_trusted(root) and project.get() == found
        return merge(own, found) if is_judged else own

    async def _define_at(self, root: str, *, is_local: bool) -> Definitions:
        """The same; what has changed is read in a thread, because it can be many files."""
        if is_local and _has_project_file(root):
            await asyncio.to_thread(self._read_changes, root)
        return self.define(root, is_local=is_local)

    def _read_changes(self, root: str) -> None:
        if self._is_trusted(root):
            self._projects(root).get()

    def offer(self, session_id: str, offered: Definitions) -> None:
        """Servers that a client brings for one session; those of the user's own file come first."""
        self._offered.pop(session_id, None)
        self._offered[session_id] = offered
        if len(self._offered) > MAX_OFFERED:
            del self._offered[next(iter(self._offered))]

    def _project_of(self, root: str) -> FileCache[Definitions]:
        return FileCache(lambda looked: read_project_file(root, self._env, looked))

    def start(self, session_id: str, root: str, *, is_local: bool) -> list[ServerConnection]:
        """Start the servers of a session, in the background."""
        return self._use(session_id, self.define(root, is_local=is_local))

    async def tools(self, scope: ToolScope) -> Registry:
        place = scope.place
        definitions = await self._define_at(place.root, is_local=place.target.name == "local")
        if scope.session_id in self._offered:
            definitions = merge(definitions, self._offered[scope.session_id])
        connections = self._use(scope.session_id, definitions)
        notices = self._notices.setdefault(scope.session_id, Notices())
        await self._wait_started([one for one in connections if not notices.knows(one)])
        notices.tell(connections, definitions, scope.warn)
        versions = tuple((one, one.version) for one in connections)
        return self._registry(_Prompted(versions, self._limit(), self.loaded(scope.session_id)))

    def load(self, session_id: str, names: Sequence[str]) -> None:
        """Make tools part of a session's prompts."""
        self._loaded[session_id] = self.loaded(session_id) | frozenset(names)

    def loaded(self, session_id: str) -> frozenset[str]:
        """The tools that a session has looked for."""
        return self._loaded.get(session_id, frozenset())

    def _registry_of(self, prompted: _Prompted) -> Registry:
        found = {
            (connection.definition.name, tool.name): (connection, tool)
            for connection, _ in prompted.servers
            for tool in connection.tools
        }
        names = name_tools(found)
        tools = [McpTool(names[pair], *found[pair]) for pair in found]
        if size_of(tools) <= prompted.limit:
            return Registry(tools)
        tools = [McpTool(names[pair], *found[pair], is_deferred=names[pair] not in prompted.loaded) for pair in found]
        return Registry((*tools, SearchTools(tools, self.load)))

    async def expand(self, text: str, root: str, *, is_local: bool) -> str | None:
        """A message with the prompt or the resources that it names; None if it names none."""
        definitions = await self._define_at(root, is_local=is_local)
        connections = [self.servers.get(definition) for definition in definitions.servers]
        await self._wait_started(connections)
        return await expand(text, connections)

    def prompts(self, root: str) -> list[tuple[ServerDefinition, PromptDefinition]]:
        """What the servers of a workspace on this machine offer, as far as they are running."""
        servers = self.define(root, is_local=True).servers
        running = [(one, self.servers.find(one)) for one in servers]
        return [(one, prompt) for one, found in running if found is not None for prompt in found.prompts]

    def forget(self, session_ids: Sequence[str]) -> None:
        for session_id in session_ids:
            self._notices.pop(session_id, None)
            self._loaded.pop(session_id, None)

    def _use(self, session_id: str, definitions: Definitions) -> list[ServerConnection]:
        for definition in definitions.servers:
            for secret in definition.secrets():
                self._hide(secret)
        return self.servers.use(session_id, definitions.servers)

    async def _wait_started(self, connections: list[ServerConnection]) -> None:
        """Give servers that the session has not seen yet a moment; a server that is slow is not waited for again."""
        if connections:
            await asyncio.gather(*(one.wait_settled(FIRST_TURN_SECONDS) for one in connections))


def _has_project_file(root: str) -> bool:
    return os.path.lexists(f"{root}/{PROJECT_FILE}")


def size_of(tools: Iterable[McpTool]) -> int:
    """How much the definitions add to a prompt, in bytes."""
    return sum(len(tool.name) + len(tool.description) + len(msgspec.json.encode(tool.parameters)) for tool in tools)
