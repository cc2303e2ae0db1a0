"""The MCP servers that an editor hands over, as the runtime takes them."""

import re
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from buddy.editor.json_rpc import INVALID_PARAMS, Json, RpcError
from buddy.editor.shapes import read
from buddy.protocol.mcp_requests import OfferedMcpServer

MAX_NAME = 48


class _Pair(Struct, frozen=True):
    name: str
    value: str


class _Server(Struct, frozen=True):
    name: str
    type: str = "stdio"
    command: str = ""
    args: tuple[str, ...] = ()
    env: tuple[_Pair, ...] = ()
    url: str = ""
    headers: tuple[_Pair, ...] = ()


def offered_servers(servers: Sequence[Json] | None) -> tuple[OfferedMcpServer, ...]:
    """Each under a name of its own; RpcError for one that cannot be reached from here."""
    found: dict[str, OfferedMcpServer] = {}
    for fields in servers or ():
        server = read(_filled(fields), _Server)
        if server.type not in ("stdio", "http"):
            raise RpcError(INVALID_PARAMS, f"MCP server {server.name[:60]!r}: {server.type} is not supported")
        name = re.sub(r"[^A-Za-z0-9_.-]+", "-", server.name).strip("-._")[:MAX_NAME] or "server"
        env = {pair.name: pair.value for pair in server.env}
        headers = {pair.name: pair.value for pair in server.headers}
        found[name] = OfferedMcpServer(name, server.command, server.args, env, server.url, headers)
    return tuple(found.values())


def _filled(fields: Json) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
