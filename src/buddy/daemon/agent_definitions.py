"""The sub-agents that a session can start, and the tools that it has: as its place, its start and its depth allow."""

import os
from collections.abc import Callable
from functools import lru_cache

from msgspec.structs import replace

from buddy.protocol.events import SessionStarted
from buddy.tools.agent_files import FoundAgents, agent_folders, find_agents, has_agents
from buddy.tools.contract import Place
from buddy.tools.registry import LazyTool, Registry
from buddy.tools.source import REMEMBERED, Recent, ToolScope, ToolSource

DELEGATE = "delegate"
MAX_ABOVE = 32


class AgentDefinitions:
    """Finds the definitions for a place: the user's, and a trusted project's."""

    def __init__(self, config_dir: str, home: str, is_trusted: Callable[[str], bool]) -> None:
        self._users = (f"{config_dir}/agents", *(agent_folders(home) if home else ()))
        self._is_trusted = is_trusted

    def find(self, place: Place) -> FoundAgents:
        is_here = place.target.name in ("local", "confined")
        return self.at(place.root if is_here else None)

    def at(self, root: str | None) -> FoundAgents:
        """The definitions for a folder on this machine; the user's alone without one."""
        own = [folder for project in _projects(root) if self._is_trusted(project) for folder in agent_folders(project)]
        return find_agents((*own, *self._users))


def untrusted_agents(root: str, is_trusted: Callable[[str], bool]) -> list[str]:
    """The folders whose definitions are not used."""
    return [project for project in _projects(root) if not is_trusted(project)]


def _projects(root: str | None) -> list[str]:
    """The folder and those above it up to the repository's, if they define agents; the nearest first."""
    if root is None:
        return []
    folders = [root]
    while not _has_repository(folders[-1]) and len(folders) < MAX_ABOVE and folders[-1] != "/":
        folders.append(os.path.dirname(folders[-1]))  # noqa: PTH120 - plain strings: this runs before every turn
    return [folder for folder in (folders if _has_repository(folders[-1]) else [root]) if has_agents(folder)]


def _has_repository(folder: str) -> bool:
    return os.path.lexists(f"{folder}/.git")


class AgentSource:
    """The tools of another source, whose `delegate` names the agents that it can start."""

    def __init__(self, source: ToolSource, find: Callable[[Place], FoundAgents]) -> None:
        self._source = source
        self._agents = Recent(lambda scope: find(scope.place).agents)

    async def tools(self, scope: ToolScope) -> Registry:
        registry = await self._source.tools(scope)
        if DELEGATE not in registry.names:
            return registry
        agents = self._agents.of(scope)
        return _naming(registry, tuple((agent.name, agent.description) for agent in agents)) if agents else registry


@lru_cache(REMEMBERED)
def _naming(registry: Registry, agents: tuple[tuple[str, str], ...]) -> Registry:
    lines = "\n".join(f"- {name}: {description}" for name, description in sorted(agents))
    tools = [
        replace(
            tool, described=replace(tool.described, description=f"{tool.described.description}\n\nAgents:\n{lines}")
        )
        if isinstance(tool, LazyTool) and tool.name == DELEGATE
        else tool
        for tool in registry
    ]
    return Registry(tools)


def narrowed(names: tuple[str, ...] | None, *, may_delegate: bool) -> Callable[[Registry], Registry]:
    """Derives the registry of a session that may use only some tools."""

    def narrow(registry: Registry) -> Registry:
        unused = set[str]() if names is None else set(registry.names) - set(names)
        return registry.without(unused if may_delegate else {*unused, DELEGATE})

    return narrow


def tool_limits(started: SessionStarted, depth: int) -> tuple[tuple[str, ...] | None, bool]:
    """The only tools that a session may use, None for all; and whether it may delegate."""
    options, delegated = started.options, started.delegated
    is_deep = (delegated.depth if delegated else 0) >= depth
    return (options.tools if options else None), not is_deep
