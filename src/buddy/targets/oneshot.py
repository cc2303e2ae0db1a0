"""Run one short program on a target to completion.

Invariants: a call ends in bounded time and leaves no local process; a target that does not answer is
SANDBOX_UNREACHABLE, with the reason.
"""

import asyncio
import os
import signal
from collections.abc import Sequence
from contextlib import suppress

from msgspec import Struct

from buddy.errors import ToolError
from buddy.targets.environment import environment
from buddy.targets.launchers import Launcher

SECONDS = 30.0


class ShellAnswer(Struct, frozen=True):
    code: int
    output: bytes
    errors: str


async def ask(launcher: Launcher, words: Sequence[str], stdin: bytes = b"", seconds: float = SECONDS) -> ShellAnswer:
    """Run `words` there to completion."""
    argv = await launcher.argv(words)
    try:
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environment(),
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise unreachable(launcher, f"{argv[0]} could not be started ({error})") from error
    try:
        async with asyncio.timeout(seconds):
            output, errors = await process.communicate(stdin)
    except TimeoutError:
        raise unreachable(launcher, f"no answer within {seconds:g} s") from None
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    return ShellAnswer(process.returncode or 0, output, errors.decode("utf-8", "replace").strip())


def unreachable(launcher: Launcher, why: str) -> ToolError:
    return ToolError(f"{launcher.name} cannot be reached: {why[-500:]}", code="SANDBOX_UNREACHABLE", retryable=True)
