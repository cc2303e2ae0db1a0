"""The slash commands and skills of a workspace that people prepared in files."""

from typing import Literal

from buddy.protocol.shapes import Shape


class ListCommands(Shape, frozen=True):
    root_path: str


class CommandInfo(Shape, frozen=True):
    """`name` is sent with a slash before it; `kind` says whether it is a command's file or a skill."""

    name: str
    kind: Literal["command", "skill"]
    owner: Literal["user", "project"]
    description: str
    argument_hint: str | None = None


class ListCommandsReply(Shape, frozen=True):
    """`problems` say what is hidden or cannot be read."""

    commands: tuple[CommandInfo, ...]
    problems: tuple[str, ...] = ()
