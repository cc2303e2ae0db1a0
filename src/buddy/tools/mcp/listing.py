"""The tools that a server lists, checked: a server may list anything.

Invariants: the number of pages and tools, and the size and depth of a definition are bounded; what is left out is
named; of two tools with one name, the first counts.
"""

from collections.abc import AsyncIterator, Iterable
from typing import Any

import msgspec
from mcp import Client
from mcp_types import Tool

from buddy.tools.mcp.contract import PromptDefinition, ToolDefinition

MAX_TOOLS = 512
MAX_PAGES = 64
MAX_SCHEMA = 32 * 1024
MAX_DESCRIPTION = 4 * 1024
MAX_DEPTH = 32
MAX_NAME = 200


async def list_tools(client: Client) -> tuple[tuple[ToolDefinition, ...], tuple[str, ...]]:
    """The tools, and why others are left out."""
    found: dict[str, ToolDefinition] = {}
    skipped: list[str] = []
    async for tool in _listed(client):
        if len(found) >= MAX_TOOLS:
            skipped.append(f"it has more than {MAX_TOOLS} tools")
            break
        problem = _problem(tool, found)
        if problem:
            skipped.append(f"{tool.name[:80]!r}: {problem}")
        else:
            description = (tool.description or tool.title or "")[:MAX_DESCRIPTION]
            found[tool.name] = ToolDefinition(tool.name, description, tool.input_schema)
    return tuple(found.values()), tuple(skipped)


async def list_prompts(client: Client) -> tuple[PromptDefinition, ...]:
    """The prompts on the first pages; of each, what a person needs to send it."""
    found: list[PromptDefinition] = []
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        page = await client.list_prompts(cursor=cursor)
        for prompt in page.prompts:
            arguments = prompt.arguments or []
            names, required = (one.name for one in arguments), (one.name for one in arguments if one.required)
            about = (prompt.description or "")[:MAX_NAME]
            found.append(PromptDefinition(prompt.name[:MAX_NAME], about, tuple(names), tuple(required)))
        cursor = page.next_cursor
        if cursor is None or len(found) >= MAX_TOOLS:
            break
    return tuple(found[:MAX_TOOLS])


async def _listed(client: Client) -> AsyncIterator[Tool]:
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        page = await client.list_tools(cursor=cursor)
        for tool in page.tools:
            yield tool
        cursor = page.next_cursor
        if cursor is None:
            return


def _problem(tool: Tool, found: dict[str, ToolDefinition]) -> str:
    if not tool.name or len(tool.name) > MAX_NAME:
        return "its name is empty or too long"
    if tool.name in found:
        return "another tool has the same name"
    if tool.input_schema.get("type", "object") != "object":
        return "its arguments are not an object"
    if _depth(tool.input_schema) > MAX_DEPTH:
        return f"its schema is nested more than {MAX_DEPTH} levels deep"
    if len(msgspec.json.encode(tool.input_schema)) > MAX_SCHEMA:
        return f"its schema is larger than {MAX_SCHEMA // 1024} KiB"
    return ""


def _depth(value: Any) -> int:
    """How deep a value is nested, as far as that matters."""
    level: list[Any] = [value]
    depth = 0
    while level and depth <= MAX_DEPTH:
        depth += 1
        level = [child for one in level for child in _children(one)]
    return depth


def _children(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return msgspec.convert(value, dict[str, Any]).values()
    return msgspec.convert(value, list[Any]) if isinstance(value, list) else ()
