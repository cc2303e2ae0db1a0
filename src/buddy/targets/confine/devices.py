"""The modes of this machine's devices, which root owns and so may change even without privileges.

Landlock's mounts prevent that. bubblewrap can only mount devices so that they are writable in every sense, so there
they are put right again afterwards.
"""

import os
import stat
from contextlib import suppress
from functools import cache

DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty")
USUAL = 0o666


@cache
def device_modes() -> dict[str, int]:
    """As they were when this process first needed them; empty for users who could not change them.

    One that was not open to all, as it is everywhere, is left out: a command of another process may have changed it.
    """
    if os.geteuid() != 0:
        return {}
    return {path: mode for path, mode in _modes().items() if mode & USUAL == USUAL}


def restore_devices(modes: dict[str, int]) -> list[str]:
    """Put right what was changed; returns what was."""
    changed = [path for path, mode in _modes().items() if mode != modes.get(path, mode)]
    for path in changed:
        with suppress(OSError):
            os.chmod(path, modes[path])  # noqa: PTH101 - plain text
    return [f"the mode of {path} was changed, and changed back" for path in changed]


def _modes() -> dict[str, int]:
    found: dict[str, int] = {}
    for path in DEVICES:
        with suppress(OSError):
            info = os.lstat(path)
            if stat.S_ISCHR(info.st_mode):
                found[path] = stat.S_IMODE(info.st_mode)
    return found
