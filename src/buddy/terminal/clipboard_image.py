"""An image on the clipboard. A paste never carries one: some terminals send an empty paste instead.

Invariants: a program is never taken from a relative entry of PATH, and is not waited for long; what is not an image
leaves nothing behind.
"""

import asyncio
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from buddy.images import NotAnImage, read_facts

SECONDS = 3.0
_PNG = "image/png"


async def save_image(env: Mapping[str, str]) -> str:
    """The path of a file with the image on the clipboard; empty if there is none."""
    for command in _programs(env):
        content = await _output_of(command)
        try:
            read_facts(content)
        except NotAnImage:
            continue
        return await asyncio.to_thread(_save, content)
    return ""


def _programs(env: Mapping[str, str]) -> list[Sequence[str]]:
    wanted: list[tuple[str, Sequence[str]]] = [
        ("WAYLAND_DISPLAY", ("wl-paste", "-t", _PNG)),
        ("DISPLAY", ("xclip", "-selection", "clipboard", "-t", _PNG, "-o")),
    ]
    path = os.pathsep.join(entry for entry in env.get("PATH", os.defpath).split(os.pathsep) if entry.startswith("/"))
    found = [(shutil.which(name, path=path), more) for variable, (name, *more) in wanted if env.get(variable)]
    return [(program, *more) for program, more in found if program]


async def _output_of(command: Sequence[str]) -> bytes:
    nothing = asyncio.subprocess.DEVNULL
    try:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=nothing, stdout=asyncio.subprocess.PIPE, stderr=nothing, start_new_session=True
        )
    except OSError:
        return b""
    try:
        async with asyncio.timeout(SECONDS):
            content, _ = await process.communicate()
    except TimeoutError:
        process.kill()
        return b""
    return content


def _save(content: bytes) -> str:
    path = Path(tempfile.mkdtemp(prefix="buddy-")) / "clipboard.png"
    path.write_bytes(content)
    return str(path)
