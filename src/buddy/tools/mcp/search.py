"""Finds tools of MCP servers whose definitions are too many to be sent with every prompt.

Invariants: all of them can be called, found or not; what was found is part of the prompt from the next turn on.
"""

import json
from collections.abc import Callable, Sequence
from typing import Annotated, Any

from msgspec import Meta, Struct

from buddy.protocol.codes import Source, Tier
from buddy.protocol.intents import Other
from buddy.tools.contract import Call, Output, Place
from buddy.tools.mcp.tool import McpTool

NAME = "search_tools"
NAMES_SHOWN = 4 * 1024
_ABOUT = (
    "Finds tools of connected servers by words of their names and descriptions, and loads them: tools that were found "
    "can be called from the next turn on. "
)


class SearchToolsArgs(Struct, frozen=True, forbid_unknown_fields=True):
    query: Annotated[str, Meta(description="Words to look for, or the exact name of a tool.", max_length=400)]
    limit: Annotated[int, Meta(description="Maximum number of tools.", ge=1, le=20)] = 5


class SearchTools:
    name: str = NAME
    tier: Tier = "read-only"
    source: Source = "unknown"
    args: type[Struct] = SearchToolsArgs
    timeout: float | None = 10.0

    def __init__(self, tools: Sequence[McpTool], load: Callable[[str, Sequence[str]], None]) -> None:
        """`load` makes tools part of a session's prompts."""
        self.description: str = _ABOUT + _listed(tools)
        self._tools = tools
        self._load = load

    async def intent(self, args: SearchToolsArgs, place: Place) -> Other:  # noqa: ARG002 - it is the same everywhere
        return Other(title="look for tools", summary=args.query, shown={"query": args.query})

    async def run(self, args: SearchToolsArgs, call: Call) -> Output:
        found = find_tools(self._tools, args.query)[: args.limit]
        if not found:
            return Output(f"no tool matches {args.query!r}; try other words")
        self._load(call.session_id, [tool.name for tool in found])
        return Output("\n\n".join(map(_describe, found)))


def find_tools(tools: Sequence[McpTool], query: str) -> list[McpTool]:
    """The best matches first; words in a name count more than those in a description."""
    words = [word for word in query.lower().replace("_", " ").split() if word]

    def score(tool: McpTool) -> float:
        name, text = tool.name.lower(), tool.description.lower()
        exact = 100.0 if query.strip().lower() == name else 0.0
        return exact + sum(3.0 * (word in name) + (word in text) for word in words)

    scored = [(score(tool), tool) for tool in tools]
    return [tool for points, tool in sorted(scored, key=lambda one: (-one[0], one[1].name)) if points > 0]


def _describe(tool: McpTool) -> str:
    schema: dict[str, Any] = tool.parameters
    return f"## {tool.name}\n{tool.description}\narguments: {json.dumps(schema, ensure_ascii=False)}"


def _listed(tools: Sequence[McpTool]) -> str:
    """The names where they are few, else how many tools each server has."""
    names = ", ".join(tool.name for tool in tools)
    if len(names) <= NAMES_SHOWN:
        return f"Available: {names}"
    counts: dict[str, int] = {}
    for tool in tools:
        counts[tool.server] = counts.get(tool.server, 0) + 1
    return "Servers: " + ", ".join(f"{server} ({count} tools)" for server, count in counts.items())
