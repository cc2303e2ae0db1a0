"""An image on the clipboard. A paste never carries one: some terminals send an empty paste instead.

Invariants: a program is never taken from a relative entry of PATH, and is not waited for long; what is not an image
leaves nothing behind. The files are removed when the program ends; those of one that was killed, after a day.
"""

import asyncio
import itertools
import os
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from buddy.images import NotAnImage, read_facts

SECONDS = 3.0
_PNG = "image/png"
_PREFIX = "buddy-clipboard-"
_KEPT_SECONDS = 24 * 3600
_numbers = itertools.count(1)
_folders: list[Path] = []


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
    if not _folders:
        _remove_old(Path(tempfile.gettempdir()))
        _folders.append(Path(tempfile.mkdtemp(prefix=_PREFIX)))
    number = next(_numbers)
    path = _folders[0] / ("clipboard.png" if number == 1 else f"clipboard-{number}.png")
    path.write_bytes(content)
    return str(path)


def remove_saved() -> None:
    """Remove the files of this process: their images are with the messages that name them."""
    while _folders:
        shutil.rmtree(_folders.pop(), ignore_errors=True)


def _remove_old(folder: Path) -> None:
    for path in folder.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            facts = path.lstat()
            if facts.st_uid == os.getuid() and time.time() - facts.st_mtime > _KEPT_SECONDS:
                shutil.rmtree(path, ignore_errors=True)
