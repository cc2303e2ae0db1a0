"""The last verdict of the self-test, kept in the state directory: can commands be confined here?

A self-test takes a third of a second, so the start of a session goes by the last one.

Invariants: nothing runs confined because of what is stored here, only after a self-test in its own process; a verdict
is void once the kernel, the boot, bubblewrap, Python, Buddy or the user is another. Few imports: `exec` reads it before
it sends its message.
"""

import json
import os
import sys
from contextlib import suppress
from typing import NamedTuple

from buddy.targets.environment import find_program
from buddy.version import VERSION

FILE = "sandbox.json"
BOOT_ID = "/proc/sys/kernel/random/boot_id"


class Verdict(NamedTuple):
    """The `method` that works or, if that is empty, the `reason` why none does."""

    method: str
    reason: str = ""


def read_verdict(state_dir: str) -> Verdict | None:
    """The last verdict; None if there is none, or if it is about something else."""
    try:
        with open(f"{state_dir}/{FILE}", encoding="utf-8") as file:  # noqa: PTH123 - pathlib is not loaded yet
            stored = json.load(file)
        if stored["subject"] == _subject():
            return Verdict(str(stored["method"]), str(stored["reason"]))
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return None


def write_verdict(state_dir: str, verdict: Verdict) -> None:
    """Keep a verdict for later. Not being able to costs the next start a self-test, and nothing else."""
    if read_verdict(state_dir) == verdict:
        return
    path = f"{state_dir}/{FILE}"
    written = f"{path}.{os.getpid()}"
    with suppress(OSError):
        with os.fdopen(os.open(written, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            json.dump({"subject": _subject(), "method": verdict.method, "reason": verdict.reason}, file)
        os.replace(written, path)  # noqa: PTH105 - as above


def _subject() -> list[str | int]:
    """What a verdict is about."""
    bubblewrap = find_program("bwrap") or ""
    changed = os.stat(bubblewrap).st_mtime_ns if bubblewrap else 0  # noqa: PTH116 - as above
    with open(BOOT_ID, encoding="ascii") as file:  # noqa: PTH123 - as above
        boot = file.read().strip()
    return [os.uname().release, boot, bubblewrap, changed, sys.executable, VERSION, os.geteuid()]
