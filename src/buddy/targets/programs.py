"""Run a third-party program on a target, connected to its stdin and stdout.

Invariants: it runs on that target or not at all; its environment, which may hold secrets, never appears in a process
list; it and everything it started carry the call's nonce and are gone after `end`.
"""

import asyncio
import os
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping, Sequence
from contextlib import suppress

from buddy.errors import ToolError
from buddy.targets.cancellation import finish_despite_cancel
from buddy.targets.contract import Target, without_terminal
from buddy.targets.environment import environment
from buddy.targets.local import Local
from buddy.targets.orphans import NONCE_VARIABLE

# One line of a protocol may hold an entire file.
LINE_LIMIT = 64 * 1024 * 1024
GRACE = 2.0
STDERR_KEPT = 4096
# Reads the environment line by line up to an empty line; the rest of stdin is the program's.
_SHELL = 'while IFS= read -r line && [ -n "$line" ]; do export "$line"; done; cd -- "$1" && shift && exec "$@"'


class Program:
    """A running program."""

    def __init__(self, process: Process, target: Target, nonce: str) -> None:
        if process.stdin is None or process.stdout is None or process.stderr is None:
            raise ToolError("the program was started without pipes")
        self.stdin = process.stdin
        self.stdout = process.stdout
        self._stderr = process.stderr
        self._process = process
        self._target = target
        self._nonce = nonce
        self._tail = b""
        self._drain = asyncio.create_task(self._keep_tail())

    @property
    def stderr_tail(self) -> str:
        """The end of what it wrote to stderr."""
        return self._tail.decode(errors="replace").strip()

    @property
    def is_running(self) -> bool:
        return self._process.returncode is None

    async def wait(self) -> int:
        """Its exit code; its stderr has been read to the end by then."""
        code = await self._process.wait()
        await asyncio.wait({self._drain}, timeout=GRACE)
        return code

    def kill(self) -> None:
        """Stop it and what it started at once; `end` releases the rest."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    async def end(self, grace: float = GRACE) -> int:
        """End it and everything it started: close stdin, then SIGTERM, then SIGKILL."""
        return await finish_despite_cancel(self._end(grace))

    async def _end(self, grace: float) -> int:
        with suppress(OSError):
            self.stdin.close()
        for number in (None, signal.SIGTERM, signal.SIGKILL):
            if number is not None:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(self._process.pid, number)
            with suppress(TimeoutError):
                async with asyncio.timeout(grace):
                    await self._process.wait()
                break
        await self._target.kill_orphans(self._nonce)
        self._drain.cancel()
        await asyncio.wait({self._drain})
        return self._process.returncode if self._process.returncode is not None else -signal.SIGKILL

    async def _keep_tail(self) -> None:
        while chunk := await self._stderr.read(65536):
            self._tail = (self._tail + chunk)[-STDERR_KEPT:]


def runs_locally(target: Target) -> bool:
    """Whether a program started on this target runs on this machine."""
    return type(without_terminal(target)) is Local


async def start_program(
    target: Target, words: Sequence[str], *, cwd: str, nonce: str, env: Mapping[str, str]
) -> Program:
    """Start a program on a target; ToolError if that is not possible there."""
    given = {**env, NONCE_VARIABLE: nonce}
    target = without_terminal(target)
    if runs_locally(target):
        return await _start(words, cwd, environment(given), target, nonce)
    from buddy.targets.remote import Remote

    if not isinstance(target, Remote):
        raise ToolError(
            f"external agents cannot be confined on {target.name}; use a container", code="SANDBOX_UNREACHABLE"
        )
    if any("\n" in value for value in given.values()):
        raise ToolError("the agent's environment contains a multi-line value, which cannot be passed on")
    argv = await target.launcher.argv(["sh", "-c", _SHELL, "sh", cwd, *words])
    program = await _start(argv, "/", environment(), target, nonce)
    program.stdin.write("".join(f"{name}={value}\n" for name, value in given.items()).encode() + b"\n")
    return program


async def start_local_program(
    words: Sequence[str], *, cwd: str, nonce: str, env: Mapping[str, str], limit: int = LINE_LIMIT
) -> Program:
    """Start a program on this machine with exactly this environment; ToolError if that is not possible."""
    return await _start(words, cwd, {**env, NONCE_VARIABLE: nonce}, Local(), nonce, limit)


async def _start(
    argv: Sequence[str], cwd: str, env: Mapping[str, str], target: Target, nonce: str, limit: int = LINE_LIMIT
) -> Program:
    try:
        process = await asyncio.create_subprocess_exec(
            *argv, cwd=cwd, env=env, stdin=PIPE, stdout=PIPE, stderr=PIPE, start_new_session=True, limit=limit
        )
    except OSError as error:
        raise ToolError(f"{argv[0]} could not be started: {error.strerror}") from error
    return Program(process, target, nonce)
