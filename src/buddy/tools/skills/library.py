"""The skills and slash commands that a session has: the user's, and those of its folder while that is trusted.

Invariants: without trust a folder's own have no effect; what was found is looked up again when something changed.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec import Struct

from buddy.errors import ToolError
from buddy.tools.contract import Place
from buddy.tools.skills.discovery import (
    PROJECT_COMMANDS,
    PROJECT_SKILLS,
    SKILL_FILE,
    Command,
    FoundCommands,
    FoundSkills,
    Skill,
    find_commands,
    find_skills,
    read_text,
    user_folders,
)
from buddy.tools.skills.expansion import Expansion, expand
from buddy.tools.skills.front_matter import split_front_matter
from buddy.tools.skills.skill_tool import render_skill

SKILL_COMMAND = "skill"
Stamp = tuple[object, ...]


class FolderTrust(Struct, frozen=True):
    """Whether a folder is trusted, and a cheap fingerprint of the answers so far."""

    is_trusted: Callable[[str], bool] = lambda _root: False
    stamp: Callable[[str], object] = lambda _root: None


class Library:
    def __init__(self, config_dir: Path, trust: FolderTrust) -> None:
        self._config_dir = config_dir
        self._trust = trust
        self._skills: dict[str, tuple[Stamp, FoundSkills]] = {}

    def skills(self, root: str | None) -> FoundSkills:
        """The skills in a workspace on this machine, or with None the user's own."""
        folders = [Path(root, name) for name in PROJECT_SKILLS] if root else []
        user = user_folders(self._config_dir, "skills")
        known = self._skills.get(root or "")
        found = known[1].skills if known else ()
        stamp = (self._trust.stamp(root or ""), *_stamps([*folders, *user], found))
        if known is None or known[0] != stamp:
            fresh = find_skills(self._trusted(root, folders), user)
            stamp = (self._trust.stamp(root or ""), *_stamps([*folders, *user], fresh.skills))
            known = self._skills[root or ""] = stamp, fresh
        return known[1]

    def commands(self, root: str | None) -> FoundCommands:
        folders = [Path(root, name) for name in PROJECT_COMMANDS] if root else []
        return find_commands(self._trusted(root, folders), user_folders(self._config_dir, "commands"))

    async def expand(self, text: str, place: Place, *, runs_commands: bool) -> Expansion | None:
        """What a message stands for; None if it names no command and no skill."""
        name, arguments = [*text[1:].split(maxsplit=1), "", ""][:2]
        root = place.root if place.target.name == "local" else None
        name, arguments = name.replace("/", ":"), arguments.strip()
        for command in self.commands(root).commands:
            if command.name == name:
                return await expand(_body(command), arguments, place, runs_commands=runs_commands)
        if name == SKILL_COMMAND:
            name, _, arguments = arguments.partition(" ")
        skill = next((skill for skill in self.skills(root).skills if skill.name == name and skill.by_user), None)
        if skill is None:
            return None
        request = f"\n\nUse this skill now: {arguments.strip()}" if arguments.strip() else "\n\nUse this skill now."
        return Expansion(render_skill(skill) + request)

    def _trusted(self, root: str | None, folders: list[Path]) -> list[Path]:
        """The folders that count; whether they are trusted is only looked up if there are any."""
        present = [folder for folder in folders if folder.is_dir()]
        return present if root and present and self._trust.is_trusted(root) else []


def _body(command: Command) -> str:
    try:
        return split_front_matter(read_text(command.path))[1]
    except (OSError, ValueError) as error:
        raise ToolError(f"/{command.name} cannot be read: {error}") from error


def _stamps(folders: list[Path], skills: tuple[Skill, ...]) -> Iterator[object]:
    for path in (*map(str, folders), *(f"{skill.folder}/{SKILL_FILE}" for skill in skills)):
        try:
            found = os.stat(path)  # noqa: PTH116 - plain strings, before every turn
        except OSError:
            yield None
        else:
            yield found.st_mtime_ns, found.st_ino, found.st_size
