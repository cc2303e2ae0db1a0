"""`[mcp]`: the MCP servers that sessions may use.

Invariants: a server is a command or a URL, never both; no `repr` shows what may hold a secret.
"""

import re
from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from buddy.config.tables import Seconds, Table

SERVER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,47}")


class McpOauth(Table, frozen=True):
    """`[mcp.servers.<name>.oauth]`: a client that the authorization server knows already. Its `client_secret` goes to
    `issuer` alone, sent by `auth_method`. With `grant = "client_credentials"` no person logs in: the secret does, or an
    assertion signed with the key in `private_key_file` (`signing_algorithm`); with `"jwt_bearer"`, the token that a
    platform writes to `assertion_file`. `client_metadata_url` is the address of a
    client ID metadata document of yours."""

    client_id: str = ""
    client_secret: str = ""
    issuer: str = ""
    auth_method: Literal["client_secret_basic", "client_secret_post"] = "client_secret_basic"
    grant: Literal["authorization_code", "client_credentials", "jwt_bearer"] = "authorization_code"
    private_key_file: str = ""
    signing_algorithm: str = "ES256"
    assertion_file: str = ""
    client_metadata_url: str = ""
    scope: str = ""

    def __post_init__(self) -> None:
        has_secret = bool(self.client_secret or self.private_key_file)
        if (has_secret or self.assertion_file) and not (self.client_id and self.issuer):
            raise ValueError("credentials need client_id, and issuer: the server that gets them")
        if (self.grant == "jwt_bearer") != bool(self.assertion_file):
            raise ValueError("jwt_bearer and assertion_file belong together")
        if self.grant == "client_credentials" and not has_secret:
            raise ValueError("client_credentials needs a client_secret or a private_key_file")
        if self.client_metadata_url and not self.client_metadata_url.startswith("https://"):
            raise ValueError("client_metadata_url must start with https://")

    @property
    def is_machine(self) -> bool:
        """Whether no person logs in."""
        return self.grant != "authorization_code"

    def __repr__(self) -> str:
        return f"McpOauth(client_id={self.client_id!r}, issuer={self.issuer!r}, grant={self.grant!r})"


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
    oauth: McpOauth | None = None

    def __post_init__(self) -> None:
        if bool(self.command) == bool(self.url):
            raise ValueError("a server has either a command or a url")
        if self.url and not self.url.startswith(("http://", "https://")):
            raise ValueError("url must start with http:// or https://")
        if self.oauth is not None and not self.url:
            raise ValueError("oauth is for a server with a url")

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
