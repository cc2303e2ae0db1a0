"""This machine as a target: commands in their own process groups, files below the workspace.

Invariants: when `run` returns or is cancelled, the child has been reaped; after a timeout or a cancellation, nothing
that carries the call's nonce or is in its control group is left. A job that a command deliberately left in the
background continues.
"""

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING

from buddy import faults
from buddy.targets import files, paths
from buddy.targets.contract import Entry, FileStat, Finished, OnOutput
from buddy.targets.environment import encode_variables, environment, find_program

if TYPE_CHECKING:
    from buddy.targets.child import Child, Process, Streams

    LaunchIn = Callable[[Sequence[str], Mapping[bytes, bytes], Streams], tuple[Process, int]]
    """Starts a command line in an environment."""

GRACE = 0.5
# The canceller waits for this: what ignores SIGTERM is killed after a moment.
CANCEL_GRACE = 0.1


class Local:
    """Satisfies `Target`; `grace` is the time between SIGTERM and SIGKILL.

    `without_cgroups` is the same target for Buddy's own read-only commands, which need no control group.
    """

    name: str = "local"

    def __init__(self, *, grace: float = GRACE, groups: bool = True) -> None:
        self._grace = grace
        self._groups = groups
        self._shell = _find_shell()
        self.without_cgroups: Local = Local(grace=grace, groups=False) if groups else self

    async def run(
        self,
        command: str,
        *,
        cwd: str,
        nonce: str,
        on_output: OnOutput,
        timeout: float | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Finished:
        from buddy.targets import cgroups

        group = cgroups.make(nonce) if self._groups and cgroups.may_outlive(command) else None
        argv = self._argv(command)
        try:
            return await self._start(group.wrap(argv) if group else argv, cwd, nonce, on_output, timeout, env)
        finally:
            if group:
                group.leave()

    def _argv(self, command: str) -> list[str]:
        # `--`: a command that starts with a dash is a command, not options for the shell.
        return [self._shell, "-c", "--", command]

    @cached_property
    def _environment(self) -> dict[bytes, bytes]:
        """The environment that its commands inherit; built once, as it does not change."""
        return encode_variables(self._base_environment())

    def _base_environment(self) -> dict[str, str]:
        return environment()

    async def _start(
        self,
        argv: Sequence[str],
        cwd: str,
        nonce: str,
        on_output: OnOutput,
        timeout: float | None,
        env: Mapping[str, str] | None,
        stdin: bytes | int = b"",
        fds: Sequence[int] = (),
        launch: "LaunchIn | None" = None,
    ) -> Finished:
        from buddy.targets import child, orphans
        from buddy.targets.cancellation import finish_despite_cancel

        faults.reached("tool.start.before")
        given = encode_variables({**(env or {}), orphans.NONCE_VARIABLE: nonce})
        variables = {**self._environment, **given}
        started = child.start(argv, cwd, variables, stdin, fds, launch and partial(launch, argv, variables))
        settled, in_time = False, True
        try:
            faults.reached("tool.start.after")
            in_time = await started.follow(on_output, timeout, self._grace)
            if not in_time:
                await self.kill_orphans(nonce)
            settled = True
        finally:
            try:
                if not settled:
                    await finish_despite_cancel(self._abandon(started, nonce))
            finally:
                code = started.close()
        faults.reached("tool.end")
        return Finished(exit_code=code, timed_out=not in_time)

    async def read_file(self, path: str, *, root: str, limit: int) -> bytes:
        # Small files are read in place: going through a thread takes about 0.1 ms longer.
        small = files.read_small(path, root, limit)
        return small if small is not None else await asyncio.to_thread(files.read, path, root, limit)

    async def read_exact(self, path: str, *, limit: int) -> bytes:
        return await asyncio.to_thread(files.read_exact, path, limit)

    async def list_exact(self, path: str) -> list[Entry]:
        return await asyncio.to_thread(files.list_dir, path, "/", follows=False)

    async def write_file(self, path: str, content: bytes, *, root: str) -> None:
        from buddy.targets.cancellation import finish_despite_cancel

        # Must finish: once a call is reported as cancelled, the file must not change any more.
        await finish_despite_cancel(asyncio.to_thread(files.write, path, content, root))

    async def stat(self, path: str, *, root: str) -> FileStat | None:
        return files.stat(path, root)

    def has_unknown_links(self, path: str) -> bool:
        try:
            return files.has_unknown_links(os.lstat(path), path)
        except OSError:
            return False

    async def list_dir(self, path: str, *, root: str) -> list[Entry]:
        return await asyncio.to_thread(files.list_dir, path, root)

    async def kill_orphans(self, nonce: str) -> int:
        return await asyncio.to_thread(_kill_all, nonce)

    async def locate(self, path: str, *, root: str) -> str:
        return paths.locate(path, root)

    async def _abandon(self, started: "Child", nonce: str) -> None:
        await started.end(min(self._grace, CANCEL_GRACE))
        await self.kill_orphans(nonce)


def _kill_all(nonce: str) -> int:
    from buddy.targets import cgroups, orphans

    group = cgroups.find(nonce)
    return (group.end() if group else 0) + orphans.kill(nonce)


def _find_shell() -> str:
    for shell in ("/bin/bash", "/usr/bin/bash"):
        if os.access(shell, os.X_OK):
            return shell
    return find_program("bash") or "/bin/sh"
