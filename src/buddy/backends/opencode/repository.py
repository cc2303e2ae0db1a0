"""Detects repository files that make OpenCode run code: it loads plugins when it opens a directory, without asking.

Invariants: such a directory is opened only if the folder that contains the files is trusted. OpenCode has no setting
that prevents loading them, so not opening the directory is the only protection.
"""

import shlex
from collections.abc import Callable
from typing import Literal

from buddy.errors import ToolError, UserError
from buddy.targets.contract import Target, without_terminal

SETTINGS = ("opencode.json", "opencode.jsonc")
FILES = (*SETTINGS, *(f".opencode/{name}" for name in (*SETTINGS, "plugin", "plugins")))
SECONDS = 30.0
# From the workspace up to the repository's root, or to /: along the path as given, and along its real path.
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
    """UserError if the workspace, or a folder above it, has such files and is not trusted.

    Files in a container can do no harm outside it; those in `home` are the user's own.
    """
    if target.name.startswith("container:"):
        return
    is_local = target.name == "local"
    for folder, name in await _find_settings(target, directory, nonce):
        if is_local and (folder == home or is_trusted(folder or "/")):
            continue
        raise UserError(
            f"{folder}/{name} can make OpenCode run code without asking, and the folder is not trusted",
            hint=f"review it, then run: buddy trust {folder}" if is_local else "remove it, or use a container",
        )


async def _find_settings(target: Target, directory: str, nonce: str) -> list[tuple[str, str]]:
    """Each such file: its folder, and its path in it."""
    output: list[bytes] = []

    async def collect(stream: Literal["stdout", "stderr"], chunk: bytes) -> None:
        if stream == "stdout":
            output.append(chunk)

    command = _FIND_SETTINGS % (" ".join(FILES), shlex.quote(directory))
    ended = await without_terminal(target).run(command, cwd=directory, nonce=nonce, on_output=collect, timeout=SECONDS)
    if ended.exit_code or ended.timed_out:
        raise ToolError(f"can't check {directory} on {target.name} for OpenCode settings")
    words = b"".join(output).decode(errors="surrogateescape").split("\0")
    return list(zip(words[::2], words[1::2], strict=False))
