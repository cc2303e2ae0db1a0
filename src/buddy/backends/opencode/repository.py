"""What of a repository OpenCode would run by itself: plugins are loaded when a directory is opened, without a question.

Invariants: no such directory is opened unless the folder that holds it is trusted. No setting of OpenCode's
keeps it from loading them, so the only way to keep them without effect is not to open it.
"""

import shlex
from collections.abc import Callable
from typing import Literal

from buddy.errors import ToolError, UserError
from buddy.targets.contract import Target

SETTINGS = ("opencode.json", "opencode.jsonc")
FILES = (*SETTINGS, *(f".opencode/{name}" for name in (*SETTINGS, "plugin", "plugins")))
SECONDS = 30.0
# From the workspace up to the repository's root, or to the top: by the path that was given, and by where it leads.
_FIND_SETTINGS = """
look() {
  while :; do
    for name in %s; do
      if [ -e "$1/$name" ] || [ -L "$1/$name" ]; then printf '%%s\\0%%s\\0' "$1" "$name"; fi
    done
    case $1 in ''|/) return;; esac
    if [ -e "$1/.git" ]; then return; fi
    set -- "${1%%/*}"
  done
}
look %s; look "$(pwd -P)"
"""


async def check_repository(
    target: Target, directory: str, nonce: str, home: str, is_trusted: Callable[[str], bool]
) -> None:
    """UserError where the workspace, or a folder above it, has such files and is not trusted.

    What a container holds can do no harm outside it; `home` has the user's own.
    """
    if target.name.startswith("container:"):
        return
    is_here = target.name == "local"
    for folder, name in await _find_settings(target, directory, nonce):
        if is_here and (folder == home or is_trusted(folder or "/")):
            continue
        raise UserError(
            f"{folder}/{name} is settings of the repository's own, whose plugins OpenCode would run unasked",
            hint=f"look at them, then: buddy trust {folder}" if is_here else "take them away",
        )


async def _find_settings(target: Target, directory: str, nonce: str) -> list[tuple[str, str]]:
    """Each folder that has such a file, and its name there."""
    said: list[bytes] = []

    async def hear(stream: Literal["stdout", "stderr"], chunk: bytes) -> None:
        if stream == "stdout":
            said.append(chunk)

    place: Target = getattr(target, "without_terminal", target)
    command = _FIND_SETTINGS % (" ".join(FILES), shlex.quote(directory))
    ended = await place.run(command, cwd=directory, nonce=nonce, on_output=hear, timeout=SECONDS)
    if ended.exit_code or ended.timed_out:
        raise ToolError(f"it could not be looked at what is in {directory} on {target.name}")
    words = b"".join(said).decode(errors="surrogateescape").split("\0")
    return list(zip(words[::2], words[1::2], strict=False))
