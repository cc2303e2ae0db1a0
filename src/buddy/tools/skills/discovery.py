"""Finds skills and slash commands in the folders where people keep them.

Invariants: looking is bounded in depth, folders and bytes, follows linked folders without going in circles, and opens
regular files alone; a name belongs to the first that is found, the project's before the user's; what is broken or
shadowed is named, never silently lost.
"""

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct

from buddy.regular_files import read_regular
from buddy.tools.skills.front_matter import is_true, split_front_matter

Owner = Literal["user", "project"]

MAX_DEPTH = 4
MAX_FOLDERS = 2000
MAX_BYTES = 1024 * 1024
MAX_NAME = 64
MAX_DESCRIPTION = 1024
SKILL_FILE = "SKILL.md"
PROJECT_SKILLS = (".agents/skills", ".claude/skills")
PROJECT_COMMANDS = (".agents/commands", ".claude/commands")
_SKIPPED = frozenset({".git", "node_modules", "__pycache__", ".venv"})
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_COMMAND_NAME = re.compile(r"[A-Za-z0-9][\w.:-]*")


class Skill(Struct, frozen=True):
    """A folder with a `SKILL.md`. `by_model` and `by_user`: who may activate it."""

    name: str
    description: str
    folder: str
    owner: Owner
    by_model: bool = True
    by_user: bool = True
    hint: str = ""


class Command(Struct, frozen=True):
    """A Markdown file that a person sends by its name."""

    name: str
    path: str
    owner: Owner
    description: str = ""
    hint: str = ""


class FoundSkills(Struct, frozen=True):
    skills: tuple[Skill, ...] = ()
    problems: tuple[str, ...] = ()


class FoundCommands(Struct, frozen=True):
    commands: tuple[Command, ...] = ()
    problems: tuple[str, ...] = ()


def user_folders(config_dir: Path, kind: Literal["skills", "commands"]) -> list[Path]:
    home = Path.home()
    return [config_dir / kind, home / ".agents" / kind, home / ".claude" / kind]


def find_skills(project: Sequence[Path], user: Sequence[Path]) -> FoundSkills:
    """The skills below these folders; the first of a name wins."""
    found: dict[str, Skill] = {}
    problems: list[str] = []
    for owner, path in _files(project, user, SKILL_FILE, problems):
        skill = _read_skill(path, owner, problems)
        if skill is None:
            continue
        if (known := found.get(skill.name)) is not None:
            problems.append(f"{skill.folder} is hidden by {known.folder}: both have the name {skill.name!r}")
            continue
        found[skill.name] = skill
    return FoundSkills(tuple(sorted(found.values(), key=lambda skill: skill.name)), tuple(problems))


def find_commands(project: Sequence[Path], user: Sequence[Path]) -> FoundCommands:
    """The commands below these folders; a subfolder is part of the name, as in `team:review`."""
    found: dict[str, Command] = {}
    problems: list[str] = []
    for owner, base in [*(("project", path) for path in project), *(("user", path) for path in user)]:
        for path in _walk(base, "*.md", problems):
            name = ":".join(Path(path).relative_to(base).with_suffix("").parts)
            if not _COMMAND_NAME.fullmatch(name):
                problems.append(f"{path}: {name!r} is not a name for a command; use letters, digits, '-' and '_'")
            elif name in found:
                problems.append(f"{path} is hidden by {found[name].path}: both are /{name}")
            elif (
                command := _read_command(path, name, "project" if owner == "project" else "user", problems)
            ) is not None:
                found[name] = command
    return FoundCommands(tuple(sorted(found.values(), key=lambda command: command.name)), tuple(problems))


def read_text(path: str) -> str:
    """A prepared text; OSError if it is no regular file, ValueError if it is too large or not UTF-8."""
    content = read_regular(path, MAX_BYTES + 1, follow=True)
    if len(content) > MAX_BYTES:
        raise ValueError(f"larger than {MAX_BYTES // 1024} KiB")
    return content.decode()


def files_of(skill: Skill, most: int) -> list[str]:
    """The other files of a skill, relative to its folder."""
    found = (os.path.relpath(path, skill.folder) for path in _walk(Path(skill.folder), "*", [], into_skills=True))
    return sorted(name for name in found if name != SKILL_FILE)[:most]


def _read_skill(path: str, owner: Owner, problems: list[str]) -> Skill | None:
    folder = os.path.dirname(path)  # noqa: PTH120 - plain strings
    fields = _head(path, problems)
    if fields is None:
        return None
    named = os.path.basename(folder)  # noqa: PTH119 - as above
    name, description = fields.get("name") or named, fields.get("description", "")
    if not _NAME.fullmatch(name) and _NAME.fullmatch(named):
        problems.append(f"{path}: {name[:80]!r} is not a name for a skill; it is called {named!r}, as its folder")
        name = named
    if not _NAME.fullmatch(name):
        problems.append(f"{path}: {name[:80]!r} is not a name for a skill; use a-z, 0-9 and '-'")
        return None
    if not description:
        problems.append(f"{path}: 'description' is missing, so nobody would know when to use it")
        return None
    if name != named:
        problems.append(f"{path}: the name {name!r} differs from its folder {named!r}")
    if len(name) > MAX_NAME or len(description) > MAX_DESCRIPTION:
        problems.append(
            f"{path}: the name or the description is too long ({MAX_NAME} and {MAX_DESCRIPTION} characters)"
        )
    by_user = not any(fields.get(key, "").lower() == "false" for key in ("user-invocable", "user_invocable"))
    hint = fields.get("argument-hint", "")
    by_model = not is_true(fields.get("disable-model-invocation"))
    return Skill(name, description, folder, owner, by_model, by_user, hint)


def _read_command(path: str, name: str, owner: Owner, problems: list[str]) -> Command | None:
    fields = _head(path, problems)
    if fields is None:
        return None
    return Command(name, path, owner, fields.get("description", "")[:200], fields.get("argument-hint", "")[:80])


def _head(path: str, problems: list[str]) -> dict[str, str] | None:
    try:
        return split_front_matter(read_text(path))[0]
    except (OSError, ValueError) as error:
        problems.append(f"{path}: {error.strerror if isinstance(error, OSError) else error}")
        return None


def _files(
    project: Sequence[Path], user: Sequence[Path], name: str, problems: list[str]
) -> Iterator[tuple[Owner, str]]:
    for folder in project:
        for path in _walk(folder, name, problems):
            yield "project", path
    for folder in user:
        for path in _walk(folder, name, problems):
            yield "user", path


def _walk(base: Path, wanted: str, problems: list[str], *, into_skills: bool = False) -> Iterator[str]:
    """The paths of files with this name (`*.md`: Markdown, `*`: any), in order."""
    seen: set[str] = set()
    left = [(str(base), 0)]
    while left:
        folder, depth = left.pop(0)
        real = os.path.realpath(folder)
        if real in seen:
            continue
        seen.add(real)
        if len(seen) > MAX_FOLDERS:
            problems.append(f"{base} has more than {MAX_FOLDERS} folders; the rest is not read")
            return
        names, folders = _entries(folder)
        hits = [name for name in names if wanted in ("*", name) or (wanted == "*.md" and name.endswith(".md"))]
        yield from (f"{folder}/{name}" for name in hits)
        if wanted == SKILL_FILE and hits and not into_skills:
            continue  # what is inside belongs to this skill
        if depth < MAX_DEPTH:
            left += [(f"{folder}/{name}", depth + 1) for name in folders if name not in _SKIPPED]
        elif folders:
            problems.append(f"{folder} is too deep; the folders in it are not read")


def _entries(folder: str) -> tuple[list[str], list[str]]:
    try:
        with os.scandir(folder) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except OSError:
        return [], []
    return [entry.name for entry in entries if not entry.is_dir()], [entry.name for entry in entries if entry.is_dir()]
