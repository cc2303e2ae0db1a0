"""Where the tools of a session come from; they may change while it is open.

Invariant: a source returns the same registry object as long as its tools are the same, so that whatever is derived from
it (specs, their text, another registry) is computed once.
"""

import logging
import time
from collections.abc import Callable
from functools import lru_cache
from typing import Generic, Protocol, TypeVar

from msgspec import Struct

from buddy.tools.contract import Place
from buddy.tools.registry import Registry

# Sessions of one daemon share most registries; what is derived from an old one is computed again if it returns.
REMEMBERED = 64

TOOL_WARNING = "MCP_"
"""How the codes of warnings about tools begin."""

RECENT_SECONDS = 1.0
MAX_RECENT = 256
Value = TypeVar("Value")

_log = logging.getLogger("buddy.tools")


def ignore_warning(_code: str, _message: str, _detail: str | None) -> None:
    pass


class ToolScope(Struct, frozen=True):
    """The session that asks, in which run, and where it works. `warn` records what its user should know about the
    tools, under a code that begins with `TOOL_WARNING`."""

    session_id: str
    place: Place
    warn: Callable[[str, str, str | None], None] = ignore_warning
    run_id: str = ""


class ToolSource(Protocol):
    async def tools(self, scope: ToolScope) -> Registry:
        """The tools that the session has now. It is asked before each turn, so it answers from what it knows."""
        ...


class Recent(Generic[Value]):
    """What a lookup in the file system found: looked up for each run, and while it lasts not more than once a second.

    Turns of a fast model, or of many sessions, follow each other within milliseconds.
    """

    def __init__(self, find: Callable[[ToolScope], Value]) -> None:
        self._find = find
        self._found: dict[tuple[str, str], tuple[float, Value]] = {}

    def of(self, scope: ToolScope) -> Value:
        key, now = (scope.session_id, scope.run_id), time.monotonic()
        known = self._found.get(key)
        if known is not None and now < known[0]:
            return known[1]
        value = self._find(scope)
        if len(self._found) >= MAX_RECENT:
            self._found.clear()
        if scope.run_id:
            self._found[key] = (now + RECENT_SECONDS, value)
        return value


class FixedSource:
    """Tools that stay the same."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    async def tools(self, scope: ToolScope) -> Registry:
        del scope
        return self._registry


class CombinedSource:
    """The tools of several sources. If two have a tool of the same name, the first source wins."""

    def __init__(self, *sources: ToolSource) -> None:
        self._sources = sources

    async def tools(self, scope: ToolScope) -> Registry:
        return _merge(*[await source.tools(scope) for source in self._sources])


class FilteredSource:
    """Some of the tools of another source; `choose` derives the registry that has only these."""

    def __init__(self, source: ToolSource, choose: Callable[[Registry], Registry]) -> None:
        self._source = source
        self._choose = lru_cache(REMEMBERED)(choose)

    async def tools(self, scope: ToolScope) -> Registry:
        return self._choose(await self._source.tools(scope))


@lru_cache(REMEMBERED)
def _merge(*registries: Registry) -> Registry:
    if len(registries) == 1:
        return registries[0]
    merged = Registry(())
    for registry in registries:
        taken = registry.names & merged.names
        if taken:
            _log.warning("ignored tools whose names are taken: %s", ", ".join(sorted(taken)))
        merged = Registry((*merged, *registry.without(taken)))
    return merged
