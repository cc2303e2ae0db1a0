"""The clipboard: by a program of the desktop or of tmux where there is one, and by the terminal itself (OSC 52).

Invariants: a program is never taken from a relative entry of PATH; what is copied is only ever its input.
"""

import asyncio
import base64
import os
import shutil
from collections.abc import Callable, Mapping, Sequence

from buddy.errors import UserError

MAX_SEQUENCE = 74_994
"""Bytes of base64 that xterm accepts; others take more."""
SECONDS = 3.0


async def copy_text(text: str, write: Callable[[str], None], env: Mapping[str, str]) -> None:
    """Copy a text in every way there is; UserError if none can take it."""
    is_copied = False
    for command in programs(env):
        is_copied |= await _feed(command, text)
    encoded = base64.b64encode(text.encode(errors="replace")).decode()
    if len(encoded) <= MAX_SEQUENCE:
        write(sequence(encoded, is_in_tmux=bool(env.get("TMUX"))))
    elif not is_copied:
        raise UserError("the answer is too long for this terminal's clipboard", hint="/export writes it to a file")


def programs(env: Mapping[str, str]) -> list[Sequence[str]]:
    """The programs that reach a clipboard from here."""
    wanted: list[tuple[str, Sequence[str]]] = [
        ("TMUX", ("tmux", "load-buffer", "-w", "-")),
        ("WAYLAND_DISPLAY", ("wl-copy",)),
        ("DISPLAY", ("xclip", "-selection", "clipboard")),
    ]
    path = os.pathsep.join(entry for entry in env.get("PATH", os.defpath).split(os.pathsep) if entry.startswith("/"))
    found: list[Sequence[str]] = []
    for variable, (name, *arguments) in wanted:
        program = shutil.which(name, path=path) if env.get(variable) else None
        if program:
            found.append((program, *arguments))
    return found


def sequence(encoded: str, *, is_in_tmux: bool) -> str:
    """What asks the terminal to copy; tmux passes it on if it is wrapped, and allowed to."""
    plain = f"\x1b]52;c;{encoded}\x07"
    return plain + "\x1bPtmux;" + plain.replace("\x1b", "\x1b\x1b") + "\x1b\\" if is_in_tmux else plain


async def _feed(command: Sequence[str], text: str) -> bool:
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError:
        return False
    try:
        async with asyncio.timeout(SECONDS):
            await process.communicate(text.encode(errors="replace"))
    except TimeoutError:
        process.kill()
        return False
    return process.returncode == 0
