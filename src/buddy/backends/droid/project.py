"""Keeps a folder's own settings for an agent without effect until the folder is trusted.

Droid follows settings in the workspace (`.factory/`): commands to run without asking, hooks that run when a session
starts, servers to start. All of that would bypass our approvals. Other agents have such files, too.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

from buddy.errors import UserError
from buddy.targets.contract import Target
from buddy.targets.programs import runs_locally

FILES = tuple(f".factory/{name}.json" for name in ("settings", "settings.local", "hooks", "mcp"))


async def check_project(
    target: Target,
    cwd: str,
    is_trusted: Callable[[str], bool],
    agent: str = "droid",
    files: tuple[str, ...] = FILES,
) -> None:
    """UserError if an untrusted folder has such settings; inside a container they can do no harm."""
    if target.name.startswith("container:"):
        return
    is_local = runs_locally(target)
    for folder in _folders(cwd) if is_local else (cwd,):
        for name in files:
            if await target.stat(name, root=folder) is None or (is_local and is_trusted(folder)):
                continue
            raise UserError(
                f"{folder}/{name} can make {agent} run commands without asking, and the folder is not trusted",
                hint=f"review the file, then run: buddy trust {folder}"
                if is_local
                else "remove the file, or use a container",
            )


def _folders(cwd: str) -> Iterator[str]:
    """The workspace and the folders above it in the same repository, except the user's home."""
    start = Path(cwd)
    above = [start, *start.parents]
    top = next((at for at, folder in enumerate(above) if (folder / ".git").exists()), 0)
    yield from (str(folder) for folder in above[: top + 1] if folder != Path.home())
