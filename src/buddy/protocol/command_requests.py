"""The slash commands and skills that people prepared in files for a workspace, and the prompts of its servers."""

from typing import Literal

from buddy.protocol.shapes import Shape


class ListCommands(Shape, frozen=True):
    root_path: str


class CommandInfo(Shape, frozen=True):
    """`name` is sent with a slash before it; `kind`: a command's file, a skill, or a prompt of a running MCP server."""

    name: str
    kind: Literal["command", "skill", "prompt"]
    owner: Literal["user", "project"]
    description: str
    argument_hint: str | None = None


class ListCommandsReply(Shape, frozen=True):
    """`problems` say what is hidden or cannot be read."""

    commands: tuple[CommandInfo, ...]
    problems: tuple[str, ...] = ()
