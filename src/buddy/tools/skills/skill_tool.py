"""The tool by which a model activates a skill, and reads the files that belong to it.

Invariants: it reads inside the skill's own folder alone; there is no such tool where there are no skills.
"""

import os
from functools import lru_cache
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from buddy.errors import ToolError
from buddy.protocol.codes import Source, Tier
from buddy.protocol.intents import Other
from buddy.regular_files import read_regular
from buddy.tools.contract import Call, Output, Place
from buddy.tools.registry import Registry
from buddy.tools.skills.discovery import MAX_DESCRIPTION, SKILL_FILE, Skill, files_of, read_text
from buddy.tools.skills.front_matter import split_front_matter
from buddy.tools.source import REMEMBERED

NAME = "skill"
MAX_LISTED = 8 * 1024
"""Characters that the descriptions may take of every prompt."""
MAX_FILES = 100
MAX_FILE = 1024 * 1024


class SkillArgs(Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    file: str | None = None


class SkillTool:
    name: str = NAME
    tier: Tier = "read-only"
    source: Source = "unknown"
    timeout: float | None = 30.0

    def __init__(self, skills: tuple[Skill, ...]) -> None:
        self._skills = {skill.name: skill for skill in skills if skill.by_model}
        self.args: type[Struct] = _arguments(tuple(self._skills))
        self.description: str = describe(tuple(self._skills.values()))

    async def intent(self, args: Any, place: Place) -> Other:
        del place
        skill = self._find(args.name)
        return Other(title="use a skill", summary=args.name, shown={"skill": skill.name, "folder": skill.folder})

    async def run(self, args: Any, call: Call) -> Output:
        del call
        skill = self._find(args.name)
        return Output(render_skill(skill) if args.file is None else _read_file(skill, args.file))

    def _find(self, name: str) -> Skill:
        if name not in self._skills:
            raise ToolError(f"unknown skill {name[:80]!r}. Available: {', '.join(self._skills)}")
        return self._skills[name]


def add_skills(registry: Registry, skills: tuple[Skill, ...]) -> Registry:
    """The registry with the tool, if a model may activate any of the skills."""
    usable = tuple(skill for skill in skills if skill.by_model)
    return _add(registry, usable) if usable and NAME not in registry.names else registry


@lru_cache(REMEMBERED)
def _add(registry: Registry, skills: tuple[Skill, ...]) -> Registry:
    return Registry((*registry, SkillTool(skills)))


def describe(skills: tuple[Skill, ...]) -> str:
    """What the model reads about all skills; descriptions that do not fit are left out, names never are."""
    lines = [
        "Load the instructions of a skill when the task matches its description, before you begin.",
        "With `file`, read a file that belongs to it. Skills:",
    ]
    left = MAX_LISTED
    for skill in skills:
        text = " ".join(skill.description.split())[:MAX_DESCRIPTION]
        left -= len(skill.name) + len(text)
        lines.append(f"- {skill.name}: {text}" if left >= 0 else f"- {skill.name}")
    return "\n".join(lines)


def render_skill(skill: Skill) -> str:
    """The instructions of a skill, where its files are, and which there are."""
    try:
        body = split_front_matter(read_text(f"{skill.folder}/{SKILL_FILE}"))[1].replace("</skill", "<\\/skill")
    except (OSError, ValueError) as error:
        raise ToolError(f"the skill {skill.name} cannot be read: {error}") from error
    files = files_of(skill, MAX_FILES)
    listed = f"\n\nFiles in {skill.folder}, to be read with the tool `{NAME}` and `file`:\n" if files else ""
    return f'<skill name="{skill.name}">\n{body}\n</skill>{listed}' + "\n".join(f"- {name}" for name in files)


def _read_file(skill: Skill, name: str) -> str:
    root = os.path.realpath(skill.folder)
    path = os.path.realpath(os.path.join(root, name))  # noqa: PTH118 - plain strings
    if not path.startswith(f"{root}/"):
        raise ToolError(f"{name!r} is not a file of the skill {skill.name}")
    try:
        content = read_regular(path, MAX_FILE)
    except OSError as error:
        known = ", ".join(files_of(skill, MAX_FILES)) or "none"
        raise ToolError(f"{name!r} cannot be read: {error.strerror}. Files of {skill.name}: {known}") from error
    if b"\0" in content[:8192]:
        return f"{name} is a binary file of {len(content)} bytes; its content is not shown"
    return content.decode("utf-8", "replace")


def _arguments(names: tuple[str, ...]) -> type[Struct]:
    """The arguments with the names as an enumeration, so that a model picks one of them."""
    known = Annotated[str, Meta(description="Name of the skill.", extra_json_schema={"enum": list(names)})]
    file = Annotated[str | None, Meta(description="A file of the skill, relative to its folder (default: none).")]
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = [("name", known), ("file", file, None)]
    return msgspec.defstruct("SkillArgs", fields, bases=(SkillArgs,), frozen=True, forbid_unknown_fields=True)
