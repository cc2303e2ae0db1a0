"""Prompts and resources of MCP servers in a person's message: `/mcp__SERVER__PROMPT arguments` and `@SERVER:URI`.

Invariants: only what a person writes is read, from servers of their session; what comes back is marked as a server's
text and bounded.
"""

import re
import shlex
from collections.abc import Sequence

from buddy.errors import ToolError
from buddy.tools.mcp.connection import ServerConnection
from buddy.tools.mcp.contract import PromptDefinition
from buddy.tools.mcp.naming import PREFIX, plain_name

MAX_RESOURCES = 8
MAX_TEXT = 64 * 1024
_MENTION = re.compile(r"(?<!\S)@([A-Za-z0-9][A-Za-z0-9_.-]*):(\S+)")
_PAIR = re.compile(r"([A-Za-z_][\w.-]*)=(.*)", re.DOTALL)


def has_mention(text: str) -> bool:
    return text.startswith(f"/{PREFIX}") or _MENTION.search(text) is not None


async def expand(text: str, connections: Sequence[ServerConnection]) -> str | None:
    """The message with what it mentions; None if it mentions nothing of these servers."""
    if text.startswith(f"/{PREFIX}"):
        return await _expand_prompt(text, connections)
    named = {connection.definition.name: connection for connection in connections}
    found = [(named[server], uri) for server, uri in dict.fromkeys(_MENTION.findall(text)) if server in named]
    if not found:
        return None
    blocks = [await _read(connection, uri) for connection, uri in found[:MAX_RESOURCES]]
    return "\n\n".join([text, *blocks])


def prompt_name(server: str, prompt: str) -> str:
    return f"{PREFIX}{plain_name(server)}__{plain_name(prompt)}"


async def _expand_prompt(text: str, connections: Sequence[ServerConnection]) -> str:
    name, _, rest = text[1:].partition(" ")
    known = {
        prompt_name(connection.definition.name, prompt.name): (connection, prompt)
        for connection in connections
        for prompt in connection.prompts
    }
    if name not in known:
        raise ToolError(f"no prompt /{name[:80]}. Available: {', '.join(f'/{one}' for one in known) or 'none'}")
    connection, prompt = known[name]
    text = await connection.get_prompt(prompt.name, read_arguments(prompt, rest))
    text = text[:MAX_TEXT].replace("</prompt", "<\\/prompt")
    return f'<prompt server="{connection.definition.name}" name="{plain_name(prompt.name)}">\n{text}\n</prompt>'


def read_arguments(prompt: PromptDefinition, typed: str) -> dict[str, str]:
    """`name=value` words by name, others in the order of the prompt's arguments; the last one takes the rest."""
    try:
        words = shlex.split(typed)
    except ValueError:
        words = typed.split()
    pairs = [found for word in words if (found := _PAIR.fullmatch(word)) and found[1] in prompt.arguments]
    if pairs and len(pairs) == len(words):
        return {pair[1]: pair[2] for pair in pairs}
    names = prompt.arguments
    if not names or not words:
        given: dict[str, str] = {}
    else:
        last = len(names) - 1
        given = dict(zip(names[:last], words[:last], strict=False))
        if len(words) > last:
            given[names[last]] = " ".join(words[last:])
    missing = [name for name in prompt.required if name not in given]
    if missing:
        raise ToolError(f"/{prompt.name} needs {', '.join(missing)}")
    return given


async def _read(connection: ServerConnection, uri: str) -> str:
    server = connection.definition.name
    text = (await connection.read_resource(uri))[:MAX_TEXT].replace("</resource", "<\\/resource")
    return f'<resource server="{server}" uri="{uri[:400]}">\n{text}\n</resource>'
