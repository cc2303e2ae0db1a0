"""Runs one script: JSON on its stdin, a minimal environment, bounded output and time.

Invariants: when this returns or is cancelled, nothing that the script started is left; a script that floods its output
or never answers is ended, and that is its answer.
"""

import asyncio
import os
from collections.abc import Mapping
from typing import Literal

from buddy import faults
from buddy.errors import ToolError
from buddy.hooks.answers import ScriptOutput
from buddy.targets import child, orphans
from buddy.targets.cancellation import finish_despite_cancel
from buddy.targets.environment import encode_variables, environment

MAX_OUTPUT = 256 * 1024
GRACE = 0.2
_PASSED = (
    *("HOME", "USER", "LOGNAME", "SHELL", "PATH", "LANG", "LANGUAGE", "TZ", "TERM", "TMPDIR"),
    *("DISPLAY", "WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME"),
)


class NoAnswer(Exception):
    """The script did not get to its answer; the text says why."""


class _Flooded(Exception):
    pass


async def run_script(
    command: str, *, cwd: str, stdin: bytes, seconds: float, nonce: str, variables: Mapping[str, str]
) -> ScriptOutput:
    """Run a command line to its end; NoAnswer if it took too long or printed too much."""
    collected: dict[str, list[bytes]] = {"stdout": [], "stderr": []}
    size = 0

    async def collect(stream: Literal["stdout", "stderr"], data: bytes) -> None:
        nonlocal size
        size += len(data)
        if size > MAX_OUTPUT:
            raise _Flooded
        collected[stream].append(data)

    shell = "/bin/bash" if os.access("/bin/bash", os.X_OK) else "/bin/sh"
    env = encode_variables({**hook_environment(), **variables, orphans.NONCE_VARIABLE: nonce})
    await asyncio.to_thread(orphans.kill, nonce)  # of an earlier process that died while it ran
    faults.reached("hook.before")
    try:
        started = child.start([shell, "-c", "--", command], cwd, env, stdin)
    except ToolError as error:
        raise NoAnswer(str(error)) from error
    in_time = False
    try:
        faults.reached("hook.started")
        in_time = await started.follow(collect, seconds, GRACE)
    except _Flooded:
        raise NoAnswer(f"it printed more than {MAX_OUTPUT // 1024} KiB") from None
    finally:
        try:
            await finish_despite_cancel(_clear(started, nonce, is_over=in_time))
        finally:
            code = started.close()
    if not in_time:
        raise NoAnswer(f"no answer within {seconds:g} s")
    faults.reached("hook.after")
    return ScriptOutput(code, b"".join(collected["stdout"]), b"".join(collected["stderr"]))


def hook_environment() -> dict[str, str]:
    """What scripts get of this process's environment: where they are and who runs them, no keys."""
    full = environment()
    return {name: value for name, value in full.items() if name in _PASSED or name.startswith("LC_")}


async def _clear(started: child.Child, nonce: str, *, is_over: bool) -> None:
    """End what is left of it: the script itself, or what it forked and left behind."""
    if not is_over:
        await started.end(GRACE)
    await asyncio.to_thread(orphans.kill, nonce)
