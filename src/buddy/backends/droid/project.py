"""What a folder's own files may make Droid do: nothing, until the folder is trusted.

Droid follows settings in the workspace (`.factory/`): commands that it then runs unasked, hooks that run at the start
of a session, servers that are started. That would be done past our approvals.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

from buddy.errors import UserError
from buddy.targets.contract import Target
from buddy.targets.programs import runs_locally

FILES = tuple(f".factory/{name}.json" for name in ("settings", "settings.local", "hooks", "mcp"))


async def check_project(target: Target, cwd: str, is_trusted: Callable[[str], bool]) -> None:
    """UserError where the folder would have a say and is not trusted; in a container it harms nobody outside."""
    if target.name.startswith("container:"):
        return
    here = runs_locally(target)
    for folder in _folders(cwd) if here else (cwd,):
        for name in FILES:
            if await target.stat(name, root=folder) is None or (here and is_trusted(folder)):
                continue
            raise UserError(
                f"{folder}/{name} can make droid run things without asking, and the folder is not trusted",
                hint=f"look at the file, then: buddy trust {folder}" if here else "remove the file, or use a container",
            )


def _folders(cwd: str) -> Iterator[str]:
    """The workspace and what is above it in the same repository, the user's own home apart."""
    start = Path(cwd)
    above = [start, *start.parents]
    top = next((at for at, folder in enumerate(above) if (folder / ".git").exists()), 0)
    yield from (str(folder) for folder in above[: top + 1] if folder != Path.home())
