"""Which folders are trusted, and what their own files may then do: tighten, never loosen.

Invariants: an answer is bound to the real path of the folder and to the content of the files it is about; a changed
file is no longer trusted and is asked about again; without trust such a file has no effect at all.
"""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from buddy.approvals.hook_files import (
    HOOK_FILES,
    SCRIPT_FOLDERS,
    files_below,
    hook_commands,
    named_scripts,
)
from buddy.errors import UserError
from buddy.file_cache import Dependencies, FileCache
from buddy.named_files import MAX_DIGESTED
from buddy.regular_files import open_regular, read_regular
from buddy.shared_files import locked, replace_content

RULE_FILES = ("buddy.toml", "agent.toml")
# Files that other agents read from the folder they work in, and what these can do.
AGENT_FILES = {
    ".mcp.json": "names MCP servers",
    "opencode.json": "settings of OpenCode: its servers, plugins and permissions",
    "opencode.jsonc": "settings of OpenCode: its servers, plugins and permissions",
    ".opencode": "settings of OpenCode: its agents, commands and plugins",
    ".factory": "settings of Droid: its hooks, commands and MCP servers",
}
# Files that Buddy and other agents both read.
SHARED_FILES = {
    ".claude/skills": "skills that a model may read and follow",
    ".agents/skills": "skills that a model may read and follow",
    ".claude/commands": "slash commands, which may insert the output of programs",
    ".agents/commands": "slash commands, which may insert the output of programs",
    ".claude/agents": "agents that a session may start",
    ".agents/agents": "agents that a session may start",
}
TRUST_FILES = (*RULE_FILES, *AGENT_FILES, *HOOK_FILES, *SHARED_FILES)
_DESCRIBED = {**AGENT_FILES, **SHARED_FILES}
MAX_BYTES = 256 * 1024
MIB = 1024 * 1024
MAX_TRUSTED = MAX_DIGESTED
"""Bytes of one file that trust can cover; configuration is never that large."""
MAX_ALL = 32 * MIB
MAX_SHOWN = 10
MAX_CACHED = 100
_UNREADABLE = "correct the file, or run buddy trust --revoke for its folder"


class ProjectRules(Struct, frozen=True):
    """The rules of a folder's own file. `ignored` names what no project file may set."""

    rules: tuple[dict[str, Any], ...] = ()
    ignored: tuple[str, ...] = ()
    trusted: bool = True


class Effect(Struct, frozen=True):
    """A file that depends on trust, and what it would change."""

    name: str
    text: str


class _Answer(Struct, frozen=True):
    hash: str
    trusted: bool


class Trust:
    """The answers so far, stored in the state directory."""

    def __init__(self, state_dir: Path) -> None:
        self._path = state_dir / "trust.json"
        self._present: dict[str, FileCache[str]] = {}

    def set(self, root: str, *, trusted: bool) -> str:
        """Store the answer for a folder with its present files; return the hash it is bound to."""
        folder = _realpath(root)
        if not os.path.isdir(folder):  # noqa: PTH112 - plain strings, see `stamp`
            raise UserError(f"{folder} is not a directory")
        found = hash_of(folder)
        with locked(self._path):
            known = {**self._read(), folder: _Answer(found, trusted)}
            replace_content(self._path, msgspec.json.encode(known, order="sorted"))
        return found

    def answer(self, root: str) -> bool | None:
        """The answer for this folder with its present files; None if there is none."""
        folder = _realpath(root)
        stored = self._read().get(folder)
        return stored.trusted if stored is not None and stored.hash == self._hash(folder) else None

    def is_trusted(self, root: str) -> bool:
        return self.answer(root) is True

    def project_rules(self, root: str) -> ProjectRules:
        """The rules of a folder's own file: `ask` and `deny` if it is trusted, else none."""
        name = next((name for name in RULE_FILES if os.path.isfile(f"{root}/{name}")), None)  # noqa: PTH113 - plain strings, see `stamp`
        if name is None:
            return ProjectRules()
        if not self.is_trusted(root):
            return ProjectRules(ignored=(name,), trusted=False)
        return _read_project_rules(Path(_realpath(root)) / name)

    def stamp(self, root: str) -> tuple[tuple[int, int, int] | None, ...]:
        """A cheap fingerprint that changes whenever the rules of a folder may have changed."""
        # Runs with every tool call, so it uses plain strings: building Path objects takes longer than the stat calls.
        return tuple(map(_stamp, (self._path, *(f"{root}/{name}" for name in RULE_FILES))))

    def _hash(self, folder: str) -> str:
        """As `hash_of`, computed again only if a file may have changed; empty if trust cannot cover the folder."""

        def compute(looked: Dependencies) -> str:
            try:
                return hash_of(folder, looked)
            except UserError:
                return ""

        found = self._present.pop(folder, None) or FileCache(compute)
        self._present[folder] = found
        if len(self._present) > MAX_CACHED:
            self._present.pop(next(iter(self._present)), None)
        return found.get()

    def _read(self) -> dict[str, _Answer]:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=dict[str, _Answer])
        except (OSError, msgspec.MsgspecError):
            return {}


class _Permissions(Struct, frozen=True):
    rules: tuple[dict[str, Any], ...] = ()


def effects_of(root: str) -> list[Effect]:
    """The files of a folder that depend on trust, and what each would change."""
    folder = Path(_realpath(root))
    present = [
        name
        for name in TRUST_FILES
        if (folder / name).is_file() or (name in _DESCRIBED and _has_entries(folder / name))
    ]
    effects = [Effect(name, _describe(folder, name)) for name in present]
    return [effect for effect in effects if effect.text]


def _describe_servers(folder: str) -> str:
    """The programs that would be started, and the addresses that would be asked."""
    from buddy.tools.mcp.definitions import read_project_file

    found = read_project_file(folder, None)
    if not found.servers and found.problems:
        return f"names MCP servers, but cannot be read: {found.problems[0][1]}"
    shown = ", ".join(f"{server.name} ({server.describe_fully()})" for server in found.servers)
    return f"starts MCP servers: {shown}" if shown else "names no MCP servers"


def _has_entries(folder: Path) -> bool:
    """An empty directory sets nothing; while a confined command runs, one stands for each of these that is missing."""
    try:
        return folder.is_dir() and next(folder.iterdir(), None) is not None
    except OSError:
        return True


def hash_of(root: str, looked: Dependencies | None = None) -> str:
    """A hash over the names and contents of all files that trust covers; `looked` gets what it depends on."""
    digest, folder = hashlib.sha256(), Path(_realpath(root))
    looked = looked or Dependencies()
    files = list(_files(folder, looked))
    looked.update(str(path) for _, path in files)
    if sum(map(_size, (path for _, path in files))) > MAX_ALL:
        message = f"the files of {folder} that need trust are larger than {MAX_ALL // MIB} MiB together"
        raise UserError(message, hint="reduce them before you trust them")
    for name, path in files:
        digest.update(f"{name}\0{_content(path)}\n".encode(errors="surrogateescape"))
    return digest.hexdigest()


def _files(folder: Path, looked: Dependencies) -> Iterator[tuple[str, Path]]:
    for name in TRUST_FILES:
        yield name, folder / name
    for name in (*TRUST_FILES, *SCRIPT_FOLDERS):
        for found in files_below(folder / name, looked):
            yield str(found.relative_to(folder)), found
    for path in (*named_scripts(folder, looked), *_server_files(str(folder), looked)):
        yield os.path.relpath(path, folder), Path(path)


def _server_files(folder: str, looked: Dependencies) -> list[str]:
    """The files of the repository that the folder's MCP servers start."""
    from buddy.tools.mcp.definitions import read_project_file

    return sorted({path for server in read_project_file(folder, None).servers for path in server.files(looked)})


def _size(path: Path) -> int:
    try:
        return min(path.stat().st_size, MAX_ALL) if path.is_file() else 0
    except OSError:
        return 0


def _content(path: Path) -> str:
    """The hash of a regular file; a missing or unreadable one differs from an empty one."""
    try:
        if path.is_symlink() and not path.is_file():
            return f"-> {path.readlink()}"
        if not path.is_file():
            return "-"
        with open(open_regular(str(path), follow=True), "rb") as file:  # noqa: PTH123 - a descriptor
            # One byte more than is trusted: a file can grow, or pretend to be smaller than it is.
            content = file.read(MAX_TRUSTED + 1)
        if len(content) > MAX_TRUSTED:
            raise UserError(
                f"{path} is larger than {MAX_TRUSTED // MIB} MiB, too large to be trusted",
                hint="make it smaller, or remove it",
            )
        return hashlib.sha256(content).hexdigest()
    except OSError:
        return "-"


def _stamp(path: Path | str) -> tuple[int, int, int] | None:
    if not os.access(path, os.F_OK):  # most are missing, and an exception takes longer than a look
        return None
    try:
        found = os.stat(path)  # noqa: PTH116 - see `stamp`
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _describe(folder: Path, name: str) -> str:
    """What a file does; empty if it does nothing here."""
    if name in HOOK_FILES:
        return _describe_hooks(folder, name)
    if name == ".mcp.json":
        return _describe_servers(str(folder))
    return _DESCRIBED.get(name) or _describe_rules(folder / name)


def _describe_hooks(folder: Path, name: str) -> str:
    commands = [f"{event}: {command}" for event, command in hook_commands(folder, name)]
    more = f" and {len(commands) - MAX_SHOWN} more" if len(commands) > MAX_SHOWN else ""
    return f"runs commands at set points of a session: {'; '.join(commands[:MAX_SHOWN])}{more}" if commands else ""


def _describe_rules(path: Path) -> str:
    try:
        found = _read_project_rules(path)
    except UserError as error:
        return f"unreadable: {error}"
    count = len(found.rules)
    what = "1 rule that asks or denies" if count == 1 else f"{count} rules that ask or deny"
    rules = f"adds {what}" if count else "adds nothing"
    return f"{rules}; always ignored: {', '.join(found.ignored)}" if found.ignored else rules


def _read_project_rules(path: Path) -> ProjectRules:
    import tomllib

    try:
        document = tomllib.loads(read_regular(str(path), MAX_BYTES, follow=True).decode())
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: {error}", hint=_UNREADABLE) from error
    try:
        rules = msgspec.convert(document.get("permissions", {}), _Permissions).rules
    except msgspec.ValidationError as error:
        raise UserError(f"{path}: {error}", hint=_UNREADABLE) from error
    stricter = tuple(rule for rule in rules if rule.get("decision") in ("ask", "deny"))
    ignored = [name for name in document if name != "permissions"]
    ignored += ["permissions rules that allow"] if len(stricter) < len(rules) else []
    return ProjectRules(stricter, tuple(ignored))


def _realpath(root: str) -> str:
    return os.path.realpath(root)
