"""What of a repository OpenCode would run by itself: plugins are loaded when a directory is opened, without a question.

What always holds: no such directory is opened unless the folder that holds it is trusted. No setting of OpenCode's
keeps it from loading them, so the only way to keep them without effect is not to open it.
"""

from collections.abc import Callable
from pathlib import PurePosixPath

from buddy.errors import ToolError, UserError
from buddy.targets.contract import Target

SETTINGS = ("opencode.json", "opencode.jsonc")
FILES = (*SETTINGS, *(f".opencode/{name}" for name in (*SETTINGS, "plugin", "plugins")))


async def check_repository(target: Target, directory: str, home: str, is_trusted: Callable[[str], bool]) -> None:
    """UserError where the workspace, or a folder above it, has such files and is not trusted.

    What a container holds can do no harm outside it; `home` has the user's own.
    """
    if target.name.startswith("container:"):
        return
    here = PurePosixPath(directory)
    for folder in map(str, (here, *here.parents)):
        found = None if folder == home else await _first_of(target, folder)
        if found and not (target.name == "local" and is_trusted(folder)):
            raise UserError(
                f"{folder}/{found} is settings of the repository's own, whose plugins OpenCode would run unasked",
                hint=f"look at them, then: buddy trust {folder}" if target.name == "local" else "take them away",
            )
        if await _has(target, folder, ".git"):
            return


async def _first_of(target: Target, folder: str) -> str | None:
    for name in FILES:
        if await _has(target, folder, name):
            return name
    return None


async def _has(target: Target, folder: str, name: str) -> bool:
    try:
        return await target.stat(name, root=folder) is not None
    except ToolError:
        return True  # a link to somewhere else, for one
