"""Definitions of sub-agents: Markdown files whose front matter names them and whose text is their system prompt.

Invariants: a project's files count only while its folder is trusted; of several definitions with one name, the nearest
wins: the project's before the user's, `.agents` before `.claude`; a broken file is skipped and reported, never guessed.
"""

import os
import re
from collections.abc import Iterable
from functools import lru_cache

from msgspec import Struct

from buddy.errors import UserError
from buddy.regular_files import read_regular
from buddy.tools.other_names import our_names
from buddy.tools.skills.front_matter import split_front_matter

FOLDERS = (".agents/agents", ".claude/agents")
MAX_FILES = 200
MAX_BYTES = 256 * 1024
MAX_DESCRIPTION = 1024
# Commas and spaces separate names; what is in parentheses belongs to its name.
_BETWEEN = re.compile(r"[,\s]+(?![^(]*\))")
_NAME = re.compile(r"[\w][\w .-]{0,63}")
INHERIT = frozenset({"", "inherit", "sonnet", "opus", "haiku"})
"""Models that stand for the parent's: names that only another agent can resolve."""


class AgentDefinition(Struct, frozen=True):
    """A sub-agent that a model can ask for by name. Without `tools`, it has those of its parent."""

    name: str
    description: str = ""
    prompt: str = ""
    tools: tuple[str, ...] | None = None
    without: tuple[str, ...] = ()
    model: str = ""
    agent_runtime: str = ""
    max_turns: int | None = None
    path: str = ""


class FoundAgents(Struct, frozen=True):
    """The definitions by name, and what is wrong with those that were skipped or hidden."""

    agents: tuple[AgentDefinition, ...] = ()
    problems: tuple[str, ...] = ()

    def get(self, name: str) -> AgentDefinition | None:
        return next((agent for agent in self.agents if agent.name == name), None)


NO_AGENTS = FoundAgents()


def find_agents(folders: Iterable[str]) -> FoundAgents:
    """The definitions in these folders, the nearest first."""
    files = tuple(file for folder in folders for file in _files(folder))
    return _read_all(files) if files else NO_AGENTS


def agent_folders(directory: str) -> tuple[str, ...]:
    """Where a project, or a user in the home directory, keeps definitions."""
    return tuple(f"{directory}/{name}" for name in FOLDERS)


def has_agents(directory: str) -> bool:
    return any(os.path.isdir(folder) for folder in agent_folders(directory))  # noqa: PTH112 - plain strings, see `_files`


def _files(folder: str) -> list[tuple[str, int, int]]:
    """The Markdown files of a folder, by name, each with what changes when it does."""
    # Runs before every turn, so it uses plain strings: building Path objects takes longer than the system calls.
    try:
        with os.scandir(folder) as found:
            entries = sorted((entry for entry in found if entry.name.endswith(".md")), key=lambda entry: entry.name)
        return [(entry.path, *_stamp(entry)) for entry in entries[:MAX_FILES]]
    except OSError:
        return []


def _stamp(entry: "os.DirEntry[str]") -> tuple[int, int]:
    try:
        info = entry.stat()
    except OSError:  # a link that leads nowhere: reading it says so
        return 0, 0
    return info.st_mtime_ns, info.st_size


@lru_cache(64)
def _read_all(files: tuple[tuple[str, int, int], ...]) -> FoundAgents:
    agents: dict[str, AgentDefinition] = {}
    problems: list[str] = []
    for path, _, _ in files:
        try:
            agent = read_agent(path)
        except UserError as error:
            problems.append(f"{path}: {error}")
            continue
        if agent.name in agents:
            problems.append(f"{path}: not used, {agents[agent.name].path} defines {agent.name!r}, too")
        else:
            agents[agent.name] = agent
    return FoundAgents(tuple(agents.values()), tuple(problems))


def read_agent(path: str) -> AgentDefinition:
    """One definition; UserError if it cannot be used."""
    try:
        content = read_regular(path, MAX_BYTES + 1, follow=True)
        text = content.decode()
    except OSError as error:
        raise UserError(f"cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UserError("is not UTF-8 text") from error
    if len(content) > MAX_BYTES:
        raise UserError(f"is larger than {MAX_BYTES // 1024} KiB")
    values, prompt = split_front_matter(text)
    if not values:
        raise UserError("it has no front matter (key: value lines between two lines of ---)")
    return _definition(values, prompt, path)


def _definition(values: dict[str, str], prompt: str, path: str) -> AgentDefinition:
    name = values.get("name") or os.path.basename(path).removesuffix(".md")  # noqa: PTH119 - plain strings, see `_files`
    if not _NAME.fullmatch(name):
        raise UserError(f"its name {name[:80]!r} must have 1 to 64 letters, digits, spaces, '.', '_' or '-'")
    if not values.get("description"):
        raise UserError("its front matter has no description, so no model would know when to use it")
    turns = values.get("maxturns") or values.get("max_turns") or ""
    if turns and not (turns.isascii() and turns.isdigit() and int(turns) > 0):
        raise UserError(f"its maxTurns {turns[:20]!r} is not a positive number")
    return AgentDefinition(
        name,
        " ".join(values["description"].split())[:MAX_DESCRIPTION],
        prompt,
        _tools(values.get("tools", "")) or None,
        _tools(values.get("disallowedtools", "")),
        model="" if values.get("model", "") in INHERIT else values["model"],
        agent_runtime=values.get("agent_runtime", ""),
        max_turns=int(turns) if turns else None,
        path=path,
    )


def _tools(value: str) -> tuple[str, ...]:
    """The names as ours; `*` stands for all of the parent's, as no list does."""
    words = [word for part in _BETWEEN.split(value.strip().strip("[]")) if (word := part.strip("-\"' "))]
    return () if "*" in words else tuple(dict.fromkeys(name for word in words for name in our_names(word)))
