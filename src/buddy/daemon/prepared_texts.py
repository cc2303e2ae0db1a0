"""Skills and slash commands from files, for the sessions of a daemon; loaded when somebody has one."""

import os
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from buddy.approvals.trust import Trust
from buddy.protocol.command_requests import CommandInfo, ListCommandsReply
from buddy.tools.contract import Place
from buddy.tools.registry import Registry
from buddy.tools.source import Recent, ToolScope, ToolSource

if TYPE_CHECKING:
    from buddy.tools.skills.expansion import Expansion
    from buddy.tools.skills.library import Library

_KINDS = ("skills", "commands")


class PreparedTexts:
    def __init__(self, config_dir: Path, trust: Trust) -> None:
        self._config_dir = config_dir
        self._trust = trust

    @cached_property
    def library(self) -> "Library":
        from buddy.tools.skills.library import FolderTrust, Library

        return Library(self._config_dir, FolderTrust(self._trust.is_trusted, self._trust.stamp))

    async def expand(self, text: str, place: Place, *, runs_commands: bool) -> "Expansion | None":
        """What a message that starts with a slash stands for; None if it is just a message."""
        if not self.has_any(local_root(place)):
            return None
        return await self.library.expand(text, place, runs_commands=runs_commands)

    def list_commands(self, root: str) -> ListCommandsReply:
        """What a person can send in this workspace by its name."""
        root = os.path.realpath(root)
        if not self.has_any(root):
            return ListCommandsReply(())
        commands, skills = self.library.commands(root), self.library.skills(root)
        found = [
            CommandInfo(one.name, "command", one.owner, one.description, one.hint or None) for one in commands.commands
        ]
        taken = {one.name for one in commands.commands}
        found += [
            CommandInfo(one.name, "skill", one.owner, one.description, one.hint or None)
            for one in skills.skills
            if one.by_user and one.name not in taken
        ]
        return ListCommandsReply(tuple(found), (*commands.problems, *skills.problems))

    def with_skills(self, source: ToolSource) -> ToolSource:
        return _WithSkills(source, self)

    def add_skills(self, registry: Registry, place: Place) -> Registry:
        from buddy.tools.skills.skill_tool import add_skills

        return add_skills(registry, self.library.skills(local_root(place)).skills)

    def has_any(self, root: str | None) -> bool:
        """Before every turn: a few lookups, and nothing is loaded where nobody has prepared anything."""
        home, config = os.path.expanduser("~"), str(self._config_dir)  # noqa: PTH111 - plain strings
        places = [config, f"{home}/.agents", f"{home}/.claude"]
        places += [f"{root}/.agents", f"{root}/.claude"] if root else []
        found = [place for place in places if os.path.isdir(place)]  # noqa: PTH112 - as above
        return any(os.path.isdir(f"{place}/{kind}") for place in found for kind in _KINDS)  # noqa: PTH112 - as above


class _WithSkills:
    """The tools of another source, and the one that activates skills."""

    def __init__(self, source: ToolSource, texts: PreparedTexts) -> None:
        self._source = source
        self._texts = texts
        self._is_used = Recent(lambda scope: texts.has_any(local_root(scope.place)))

    async def tools(self, scope: ToolScope) -> Registry:
        registry = await self._source.tools(scope)
        return self._texts.add_skills(registry, scope.place) if self._is_used.of(scope) else registry


def local_root(place: Place) -> str | None:
    """The workspace, if it is on this machine."""
    return place.root if place.target.name == "local" else None
