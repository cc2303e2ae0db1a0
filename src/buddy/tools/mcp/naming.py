"""The names by which a model calls the tools of MCP servers: `mcp__SERVER__TOOL`.

Invariants: a name has at most 64 of the characters that model APIs accept; two tools never have the same one; none can
take the name of a built-in tool, which never begins like that.
"""

import hashlib
import re
from collections.abc import Iterable

PREFIX = "mcp__"
LONGEST = 64
_FORBIDDEN = re.compile(r"[^A-Za-z0-9_-]")
_MARK = 7


def name_tools(tools: Iterable[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """A name for each pair of server and tool; a pair gets a mark where its plain name is too long or not its own."""
    pairs = list(dict.fromkeys(tools))
    plain = {pair: _plain(*pair) for pair in pairs}
    counts: dict[str, int] = {}
    for name in plain.values():
        counts[name] = counts.get(name, 0) + 1
    is_own = {pair: counts[name] == 1 and len(name) <= LONGEST for pair, name in plain.items()}
    return {pair: name if is_own[pair] else _marked(pair, name) for pair, name in plain.items()}


def plain_name(text: str) -> str:
    """A server's or a prompt's name in the characters that may be used."""
    return _FORBIDDEN.sub("_", text)


def tool_prefix(server: str) -> str:
    """How the names of a server's tools begin."""
    return f"{PREFIX}{plain_name(server)}__"


def _plain(server: str, tool: str) -> str:
    return f"{tool_prefix(server)}{plain_name(tool)}"


def _marked(pair: tuple[str, str], name: str) -> str:
    mark = hashlib.sha256("\0".join(pair).encode(errors="surrogatepass")).hexdigest()[: _MARK - 1]
    return f"{name[: LONGEST - _MARK]}_{mark}"
