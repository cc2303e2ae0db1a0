"""Find and read the configuration file.

Invariants: the first file that exists is the configuration and files are never merged; a project's own `buddy.toml`
is not read; any problem in a file is a `UserError` with the file, the line and how to fix it.
"""

import os
import stat
import tomllib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec

from buddy.config.fleet import AuthSettings, ClusterSettings, NodeSettings
from buddy.config.mcp import SERVER_NAME, McpServer, McpSettings, McpTable
from buddy.config.notify import NotifySettings
from buddy.config.places import Places
from buddy.config.settings import (
    SCHEMES,
    AgentSettings,
    CheckpointSettings,
    Config,
    DisplaySettings,
    LogSettings,
    MemorySettings,
    Profile,
    ServerSettings,
    StorageSettings,
    ToolSettings,
)
from buddy.config.tables import Table
from buddy.errors import UserError

AnyTable = TypeVar("AnyTable", bound=Table)

_TABLES = tuple(name for name in Config.__struct_fields__ if name != "source")


def load_config(env: Mapping[str, str], explicit: Path | None, places: Places) -> Config:
    """Read the named file or the user's; without one, use the defaults."""
    found = find_config(env, explicit, places)
    return load_file(found.path) if found else Config()


def load_file(path: Path) -> Config:
    return parse_config(_read(path), str(path))


def parse_config(text: str, source: str) -> Config:
    """Parse the text of a file; `source` is its path, used in errors and to resolve relative paths."""
    return _Reader(text, source).config()


@lru_cache(1)
def parse_toml(text: str) -> dict[str, Any]:
    """The document of a file, which several parts read when it has changed; nobody changes what is returned."""
    return tomllib.loads(text)


class ConfigFile(NamedTuple):
    """The configuration file that was found, and its status."""

    path: Path
    status: os.stat_result


def find_config(env: Mapping[str, str], explicit: Path | None, places: Places) -> ConfigFile | None:
    """The configuration file, or None if there is none."""
    named = explicit or (Path(env["BUDDY_CONFIG"]) if env.get("BUDDY_CONFIG") else None)
    if named:
        path = named.expanduser().absolute()
        status = _status_of(path)
        if status is None:
            raise UserError(f"no configuration file at {path}", hint="check --config or BUDDY_CONFIG")
        return ConfigFile(path, status)
    for path, folder in _candidates(places.config_dir):
        status = _status_of(path)
        if status is not None:
            _check_owner(path, status)
            _check_owner(folder, folder.stat())
            return ConfigFile(path, status)
    return None


def _status_of(path: Path) -> os.stat_result | None:
    """The status of a regular file; None if there is none."""
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return status if stat.S_ISREG(status.st_mode) else None


@lru_cache(4)
def _candidates(home: Path) -> tuple[tuple[Path, Path], ...]:
    """The files, each with its folder; a daemon looks for them often."""
    agent = home.parent / "agent"
    return (home / "buddy.toml", home), (home / "agent.toml", home), (agent / "agent.toml", agent)


def _check_owner(place: Path, status: os.stat_result) -> None:
    """Reject what other users can write: the file decides where requests and keys are sent."""
    if status.st_mode & 0o002 or status.st_uid not in (os.geteuid(), 0):
        raise UserError(
            f"{place} is writable by other users", hint=f"make it yours (chown) and run: chmod go-w {place}"
        )


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode()
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 text (byte {error.start})") from error
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error


class _Reader:
    """The text of one file, so that errors can point to a line."""

    def __init__(self, text: str, source: str) -> None:
        self._text = text
        self._source = source

    def config(self) -> Config:
        tables = self._tables()
        models = {name: self._profile(name, table) for name, table in tables["models"].items()}
        return Config(
            models=models,
            agent=self._table(("agent",), tables["agent"], AgentSettings),
            tools=self._table(("tools",), tables["tools"], ToolSettings),
            display=self._table(("display",), tables["display"], DisplaySettings),
            server=self._table(("server",), tables["server"], ServerSettings),
            memory=self._table(("memory",), tables["memory"], MemorySettings),
            log=self._table(("log",), tables["log"], LogSettings),
            mcp=self._mcp(tables["mcp"]),
            auth=self._table(("auth",), tables["auth"], AuthSettings),
            node=self._table(("node",), tables["node"], NodeSettings),
            cluster=self._table(("cluster",), tables["cluster"], ClusterSettings),
            checkpoints=self._table(("checkpoints",), tables["checkpoints"], CheckpointSettings),
            storage=self._table(("storage",), tables["storage"], StorageSettings),
            notify=self._table(("notify",), tables["notify"], NotifySettings),
            permissions=tables["permissions"],
            limits=tables["limits"],
            source=self._source,
        )

    def _mcp(self, table: dict[str, Any]) -> McpSettings:
        servers = table.get("servers", {})
        if not isinstance(servers, dict):
            raise self._error(("mcp",), "servers in [mcp] must be a table", "write [mcp.servers.NAME]")
        named = msgspec.convert(servers, dict[str, Any])
        for name in named:
            if SERVER_NAME.fullmatch(name) is None:
                hint = "use up to 48 letters, digits, '_', '-' and '.'"
                raise self._error(("mcp", "servers", name), f"{name!r} cannot be the name of an MCP server", hint)
        rest = {key: value for key, value in table.items() if key != "servers"}
        plain = self._table(("mcp",), rest, McpTable)
        found = {name: self._table(("mcp", "servers", name), one, McpServer) for name, one in named.items()}
        return McpSettings(found, plain.definitions_kib)

    def _tables(self) -> dict[str, dict[str, Any]]:
        document = self._document()
        for name, table in document.items():
            if name not in _TABLES:
                from buddy.config.validation import Origin, unknown_table

                raise unknown_table(Origin(self._source, self._text), name, _TABLES)
            if not isinstance(table, dict):
                raise self._error((name,), f"{name} must be a table", f"write [{name}]")
        return {name: document.get(name, {}) for name in _TABLES}

    def _document(self) -> dict[str, Any]:
        try:
            return parse_toml(self._text)
        except tomllib.TOMLDecodeError as error:
            import re

            what, line, _ = (*re.split(_SYNTAX, str(error), maxsplit=1), "", "")[:3]
            number = int(line) if line else self._text.count("\n") + 1
            raise UserError(f"{self._source}:{number}: {what}", hint="the file must be valid TOML") from error

    def _profile(self, name: str, table: object) -> Profile:
        profile = self._table(("models", name), table, Profile)
        if profile.api_base_url and not profile.api_base_url.lower().startswith(SCHEMES):
            from buddy.config.validation import Origin, not_a_url

            raise not_a_url(Origin(self._source, self._text), name, table, profile.api_base_url)
        return profile

    def _table(self, path: tuple[str, ...], table: object, shape: type[AnyTable]) -> AnyTable:
        if table == {} and len(path) == 1:
            return shape()
        try:
            return msgspec.convert(table, shape)
        except msgspec.ValidationError as error:
            from buddy.config.validation import Origin, explain

            raise explain(Origin(self._source, self._text), path, error, shape) from error

    def _error(self, path: tuple[str, ...], message: str, hint: str = "") -> UserError:
        from buddy.config.validation import Origin

        return Origin(self._source, self._text).error(path, message, hint)


_SYNTAX = r" \(at line (\d+), column \d+\)"
