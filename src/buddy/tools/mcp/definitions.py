"""Which MCP servers a session has: those of the user's own file, and those of a trusted project's `.mcp.json`.

Invariants: equal definitions are the same server, so sessions can share it; a name that the user's own file has is
never a project's, even if that server is turned off or broken; a variable without a value is a mistake that names the
variable, never an empty text; a project's file cannot use a variable that holds a secret; a project's server is started
only while the files that it is made of are those that were looked at.
"""

import os
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from buddy.config.mcp import SERVER_NAME, McpOauth, McpServer
from buddy.config.server_address import password_in, without_credentials
from buddy.errors import UserError
from buddy.file_cache import Dependencies
from buddy.named_files import digest_of, named_files
from buddy.regular_files import read_regular
from buddy.scrub.encodings import MIN_LENGTH
from buddy.scrub.environment import is_secret_name, secrets_of
from buddy.scrub.scrubber import Scrubber
from buddy.tools.mcp.naming import tool_prefix

PROJECT_FILE = ".mcp.json"
MAX_BYTES = 256 * 1024
MAX_SERVERS = 64
LOGIN_HEADERS = ("authorization", "proxy-authorization", "cookie")
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")

Pairs = tuple[tuple[str, str], ...]


class ServerDefinition(Struct, frozen=True):
    """How to reach one server, variables included. `origin` is the file that it comes from."""

    name: str
    command: str = ""
    args: tuple[str, ...] = ()
    env: Pairs = ()
    cwd: str = ""
    url: str = ""
    headers: Pairs = ()
    startup_seconds: float = 30.0
    timeout_seconds: float = 300.0
    enabled_tools: tuple[str, ...] | None = None
    disabled_tools: tuple[str, ...] = ()
    origin: str = ""
    oauth: McpOauth | None = None
    fingerprint: str = ""
    """Of a project's server: what the files of the repository that it starts contained."""

    def files(self, looked: Dependencies | None = None) -> list[str]:
        """The files of its repository that a project's server starts; UserError if they are too many.

        `looked` gets every path that decides the result.
        """
        folder = os.path.dirname(self.origin)  # noqa: PTH120 - text
        line = shlex.join((self.command, *self.args, *(value for _, value in self.env)))
        return named_files([line], folder, (self.cwd,), looked) if self.command else []

    def with_fingerprint(self, looked: Dependencies) -> "ServerDefinition":
        """The same, bound to what its files contain now; UserError if they are too many."""
        if not self.command:
            return self
        files = self.files(looked)
        looked.update(files)
        return replace(self, fingerprint=digest_of(files))

    def is_as_defined(self) -> bool:
        """Whether the files of a project's server still have the content that it was defined with."""
        return not self.fingerprint or digest_of(self.files()) == self.fingerprint

    def describe(self) -> str:
        """The command or the address, for a person, without what may be secret."""
        address = without_credentials(self.url).partition("?")[0]
        return address or " ".join((self.command, *self.args))

    def describe_fully(self) -> str:
        """All that decides what is started or asked, for the user who is to trust it."""
        words = [f'"{word}"' if " " in word or not word else word for word in (self.command, *self.args)]
        parts = [self.url or " ".join(words)]
        for label, pairs in (("env", self.env), ("headers", self.headers)):
            if pairs:
                parts.append(f"{label} {' '.join(f'{name}={value}' for name, value in pairs)}")
        if self.cwd and self.cwd != os.path.dirname(self.origin):  # noqa: PTH120 - text
            parts.append(f"in {self.cwd}")
        return "; ".join(parts)

    def secrets(self) -> tuple[str, ...]:
        """Values that must not be shown: variables and headers that are named so, a password in the address."""
        hidden = [value for name, value in self.headers if name.lower() in LOGIN_HEADERS or is_secret_name(name)]
        words = (word for value in hidden for word in (value, value.rpartition(" ")[2]))
        own = (self.oauth.client_secret,) if self.oauth is not None else ()
        return (*secrets_of(dict(self.env)), *words, *own, password_in(self.url))

    def offers(self, tool: str) -> bool:
        """Whether the configuration lets sessions see a tool."""
        return tool not in self.disabled_tools and (self.enabled_tools is None or tool in self.enabled_tools)

    def __repr__(self) -> str:
        return f"ServerDefinition({self.name!r}, {self.describe()!r})"


class Definitions(Struct, frozen=True):
    """The servers that can be used, what is wrong with the others, by name, and what else is worth knowing."""

    servers: tuple[ServerDefinition, ...] = ()
    problems: tuple[tuple[str, str], ...] = ()
    notes: tuple[tuple[str, str], ...] = ()
    disabled: tuple[str, ...] = ()


def define(
    servers: Mapping[str, McpServer],
    env: Mapping[str, str] | None,
    origin: str,
    folder: str,
    *,
    is_project: bool = False,
) -> Definitions:
    """The definitions of one file; relative paths start from `folder`. Without `env`, variables stay as written.

    A project's file cannot use variables that hold secrets.
    """

    def fill(text: str) -> str:
        return text if env is None else expand(text, env, is_project=is_project)

    found: list[ServerDefinition] = []
    disabled: list[str] = []
    problems: list[tuple[str, str]] = []
    for name, server in servers.items():
        if not server.enabled:
            disabled.append(name)
            continue
        try:
            found.append(_define(name, server, fill, origin, folder))
        except UserError as error:
            problems.append((name, str(error)))
    return Definitions(tuple(found), tuple(problems), disabled=tuple(disabled))


def read_project_file(root: str, env: Mapping[str, str] | None, looked: Dependencies | None = None) -> Definitions:
    """The servers of a folder's `.mcp.json`; only for one that is trusted. `looked` gets what they depend on."""
    path = f"{root}/{PROJECT_FILE}"
    looked = looked or Dependencies()
    looked.add(path)
    try:
        content = read_regular(path, MAX_BYTES + 1, follow=True)
    except FileNotFoundError:
        return Definitions()
    except OSError as error:
        return Definitions(problems=((PROJECT_FILE, f"{path}: {error.strerror}"),))
    try:
        return parse_project_file(content, env, path, root, looked)
    except UserError as error:
        return Definitions(problems=((PROJECT_FILE, str(error)),))


def parse_project_file(
    content: bytes, env: Mapping[str, str] | None, path: str, root: str, looked: Dependencies | None = None
) -> Definitions:
    if len(content) > MAX_BYTES:
        raise UserError(f"{path} is larger than {MAX_BYTES // 1024} KiB")
    try:
        listed = msgspec.json.decode(content, type=_ProjectFile).named()
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: {error}", hint='expected {"mcpServers": {NAME: {"command": …}}}') from error
    servers: dict[str, McpServer] = {}
    problems: list[tuple[str, str]] = []
    for name, entry in listed.items():
        try:
            servers[name] = _from_entry(name, entry)
        except UserError as error:
            problems.append((name[:80], str(error)))
    found = define(servers, env, path, root, is_project=True)
    fixed: list[ServerDefinition] = []
    for server in found.servers:
        try:
            fixed.append(server if env is None else server.with_fingerprint(looked or Dependencies()))
        except UserError as error:
            problems.append((server.name, str(error)))
    return replace(found, servers=tuple(fixed), problems=(*problems, *found.problems))


def merge(own: Definitions, project: Definitions) -> Definitions:
    """Both; a name that the user's own file has is never a project's, also if that server is off or broken."""
    taken = (*(server.name for server in own.servers), *(name for name, _ in own.problems), *own.disabled)
    hidden = {server.name: _alike(server.name, taken) for server in project.servers}
    notes = tuple(
        (name, f"ignored in .mcp.json: it could pass for your own server {one!r}")
        for name, one in hidden.items()
        if one
    )
    return Definitions(
        (*own.servers, *(server for server in project.servers if not hidden[server.name])),
        (*own.problems, *project.problems),
        (*own.notes, *project.notes, *notes),
        (*own.disabled, *project.disabled),
    )


def _alike(name: str, taken: Iterable[str]) -> str:
    """Which of these servers may have tools of the same names as this one's; permission rules go by these names."""
    start = tool_prefix(name)
    return next((one for one in taken if start.startswith(tool_prefix(one)) or tool_prefix(one).startswith(start)), "")


class _Entry(Struct, frozen=True):
    """A server as other agents write it; what they add is ignored. `timeout` is in milliseconds there."""

    type: str = ""
    command: str | list[str] = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    cwd: str = ""
    url: str = ""
    headers: dict[str, str] = {}
    timeout: Annotated[float, Meta(gt=0)] | None = None
    disabled: bool = False


class _ProjectFile(Struct, frozen=True, rename="camel"):
    mcp_servers: Annotated[dict[str, Any], Meta(max_length=MAX_SERVERS)] = {}
    servers: Annotated[dict[str, Any], Meta(max_length=MAX_SERVERS)] = {}

    def named(self) -> dict[str, Any]:
        return self.mcp_servers or self.servers


def _from_entry(name: str, entry: object) -> McpServer:
    if SERVER_NAME.fullmatch(name) is None:
        raise UserError("its name must be up to 48 letters, digits, '_', '-' and '.'")
    try:
        given = msgspec.convert(entry, _Entry)
    except msgspec.ValidationError as error:
        raise UserError(str(error)) from error
    if given.type == "sse":
        raise UserError("the transport 'sse' is not supported; use the server's streamable HTTP address, type 'http'")
    command, *words = given.command if isinstance(given.command, list) else [given.command]
    try:
        return McpServer(
            command=command,
            args=(*words, *given.args),
            env=given.env,
            cwd=given.cwd,
            url=given.url,
            headers=given.headers,
            enabled=not given.disabled,
            timeout_seconds=given.timeout / 1000 if given.timeout else 300.0,
        )
    except ValueError as error:
        raise UserError(str(error)) from error


def _define(name: str, server: McpServer, fill: Callable[[str], str], origin: str, folder: str) -> ServerDefinition:
    cwd = os.path.normpath(os.path.join(folder, str(Path(fill(server.cwd)).expanduser())))  # noqa: PTH118 - joins text
    return ServerDefinition(
        name=name,
        command=_command(fill(server.command), cwd),
        args=tuple(map(fill, server.args)),
        env=tuple(sorted((key, fill(value)) for key, value in server.env.items())),
        cwd=cwd if server.command else "",
        url=fill(server.url),
        headers=tuple(sorted((key, fill(value)) for key, value in server.headers.items())),
        startup_seconds=server.startup_seconds,
        timeout_seconds=server.timeout_seconds,
        enabled_tools=server.enabled_tools,
        disabled_tools=server.disabled_tools,
        origin=origin,
        oauth=None if server.oauth is None else _fill_oauth(server.oauth, fill),
    )


def _fill_oauth(oauth: McpOauth, fill: Callable[[str], str]) -> McpOauth:
    key, assertion = (
        str(Path(fill(path)).expanduser()) if path else "" for path in (oauth.private_key_file, oauth.assertion_file)
    )
    return replace(
        oauth,
        client_id=fill(oauth.client_id),
        client_secret=fill(oauth.client_secret),
        issuer=fill(oauth.issuer),
        private_key_file=key,
        assertion_file=assertion,
    )


def _command(command: str, cwd: str) -> str:
    """A command with a folder in it is that file; any other is looked for on the PATH."""
    command = str(Path(command).expanduser()) if command.startswith("~") else command
    return os.path.normpath(os.path.join(cwd, command)) if "/" in command else command  # noqa: PTH118 - joins text


def expand(text: str, env: Mapping[str, str], *, is_project: bool = False) -> str:
    """Replace `${NAME}` and `${NAME:-default}`; UserError for a variable that is not set, or not for a project."""

    def value_of(found: "re.Match[str]") -> str:
        name, default = found[1], found[2]
        is_hidden = is_project and _holds_secret(name, env)
        value = None if is_hidden else env.get(name)
        if value or (value is not None and default is None):
            return value
        if default is not None:
            return default
        if is_hidden:
            raise UserError(f"the variable {name} may hold a secret, so a project's file may not use it")
        raise UserError(f"the variable {name} is not set")

    return _VARIABLE.sub(value_of, text)


def _holds_secret(name: str, env: Mapping[str, str]) -> bool:
    """By its name, or because its value is, or contains, a password, a token or the value of such a variable."""
    value = env.get(name)
    if not value:
        return False
    if is_secret_name(name) or password_in(value):
        return True
    known = any(secret in value for secret in secrets_of(env) if len(secret) >= MIN_LENGTH)
    return known or Scrubber().text(value) != value
