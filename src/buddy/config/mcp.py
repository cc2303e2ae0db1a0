"""`[mcp]`: the MCP servers that sessions may use.

Invariants: a server is a command or a URL, never both; no `repr` shows what may hold a secret.
"""

import re
from typing import Annotated

from msgspec import Meta, Struct, field

from buddy.config.tables import Seconds, Table

SERVER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,47}")


class McpServer(Table, frozen=True):
    """`[mcp.servers.<name>]`. `command` runs with `args`, `env` and `cwd` (default: your home directory); `url` is the
    address of a server over HTTP, with `headers`. A server has `startup_seconds` to answer, a call `timeout_seconds`.
    `enabled_tools` are the only ones that are offered, `disabled_tools` are not. `${NAME}` and `${NAME:-default}` stand
    for variables of the environment."""

    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict[str, str])
    cwd: str = ""
    url: str = ""
    headers: dict[str, str] = field(default_factory=dict[str, str])
    enabled: bool = True
    startup_seconds: Seconds = 30.0
    timeout_seconds: Seconds = 300.0
    enabled_tools: tuple[str, ...] | None = None
    disabled_tools: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if bool(self.command) == bool(self.url):
            raise ValueError("a server has either a command or a url")
        if self.url and not self.url.startswith(("http://", "https://")):
            raise ValueError("url must start with http:// or https://")

    def __repr__(self) -> str:
        return f"McpServer(command={self.command!r}, url={self.url.partition('?')[0]!r})"


class McpSettings(Struct, frozen=True):
    """`[mcp]`. Definitions of tools larger than `definitions_kib` in total are not sent to the model; it searches for
    them instead."""

    servers: dict[str, McpServer] = field(default_factory=dict[str, McpServer])
    definitions_kib: Annotated[int, Meta(ge=0)] = 24


class McpTable(Table, frozen=True):
    """`[mcp]` without its servers."""

    definitions_kib: Annotated[int, Meta(ge=0)] = 24
