"""How to start a program: locally, in a container or on another machine.

Invariants: programs are argv lists; every name from outside was validated in `names`; a launcher reaches its own
place or fails, and never falls back to another.
"""

import asyncio
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol, runtime_checkable

from msgspec import Struct

from buddy.errors import ToolError
from buddy.targets import names
from buddy.targets.environment import environment, find_program

ENGINES = ("docker", "podman", "nerdctl")
PROBE_SECONDS = 20.0


@runtime_checkable
class Launcher(Protocol):
    name: str

    async def argv(self, words: Sequence[str]) -> list[str]:
        """The local argv that runs `words` there."""
        ...

    def shell_command(self, words: Sequence[str]) -> str:
        """The command line for a person to run `words` there in a terminal."""
        ...


class LocalLauncher:
    name: str = "local"

    async def argv(self, words: Sequence[str]) -> list[str]:
        return list(words)

    def shell_command(self, words: Sequence[str]) -> str:
        return _join(words)


class ContainerLauncher:
    """A running container, under whichever engine knows it unless `engine` is given."""

    def __init__(self, container: str, engine: str | None = None) -> None:
        self.container = names.container(container)
        self.name: str = f"container:{self.container}"
        self._engine = engine

    async def engine(self) -> str:
        """The engine that runs it."""
        if self._engine is None:
            self._engine = await _find_engine(self.container)
        return self._engine

    async def argv(self, words: Sequence[str]) -> list[str]:
        return [await self.engine(), "exec", "-i", self.container, *words]

    def shell_command(self, words: Sequence[str]) -> str:
        engine = self._engine or next(iter(engines()), ENGINES[0])
        return _join([engine, "exec", "-it", self.container, *words])


class SshLauncher:
    """A host, through the system's ssh and the user's configuration; calls share one connection."""

    def __init__(self, host: str, control_dir: Path, options: Sequence[str] = ()) -> None:
        self._host = names.host(host)
        self.name: str = f"ssh:{self._host}"
        self._control_dir = control_dir
        self._options = tuple(options)

    async def argv(self, words: Sequence[str]) -> list[str]:
        _make_private(self._control_dir)
        sharing = ("ControlMaster=auto", "ControlPersist=60", f"ControlPath={self._control_dir}/%C", "BatchMode=yes")
        given = [word for option in sharing for word in ("-o", option)]
        return ["ssh", "-T", *given, *self._options, "--", self._host, _join(words)]

    def shell_command(self, words: Sequence[str]) -> str:
        return _join(["ssh", "-t", *self._options, self._host, _join(words)])


async def close_connections(directory: Path) -> None:
    """Close the connections shared through a directory and remove it."""
    if not os.path.isdir(directory):  # noqa: ASYNC240, PTH112 - one stat, and usually there is nothing more to do
        return
    for socket in await asyncio.to_thread(lambda: list(directory.iterdir())):
        ending = await asyncio.create_subprocess_exec(
            *("ssh", "-F", "none", "-o", f"ControlPath={socket}", "-O", "exit", "--", "any"),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            env=environment(),
        )
        await ending.wait()
    await asyncio.to_thread(_remove, directory)


def _remove(directory: Path) -> None:
    """Including its sockets: a closing connection removes its own a moment later."""
    with suppress(OSError):
        for socket in directory.iterdir():
            socket.unlink(missing_ok=True)
        directory.rmdir()


def _make_private(directory: Path) -> None:
    """Create a directory private to this user: anybody who can use its socket can use the connection."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = directory.lstat()
    if directory.is_symlink() or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise ToolError(f"{directory} is accessible to other users; remove it", code="SANDBOX_UNREACHABLE")


def _join(words: Sequence[str]) -> str:
    import shlex

    return shlex.join(words)


def engines() -> list[str]:
    """The installed container engines."""
    return [engine for engine in ENGINES if find_program(engine)]


async def _find_engine(container: str) -> str:
    found = engines()
    if not found:
        raise ToolError(f"none of {', '.join(ENGINES)} is installed", code="SANDBOX_UNREACHABLE")
    for engine in found:
        if await _is_running(engine, container):
            return engine
    raise ToolError(
        f"no running container {container!r} found by {', '.join(found)}; start it", code="SANDBOX_UNREACHABLE"
    )


async def _is_running(engine: str, container: str) -> bool:
    words = ("container", "inspect", "--format", "{{.State.Running}}", container)
    try:
        answer = await query_engine(engine, words, PROBE_SECONDS)
    except TimeoutError:
        return False
    return answer.output.strip() == b"true"


class EngineAnswer(Struct, frozen=True):
    code: int
    output: bytes
    errors: bytes


async def query_engine(engine: str, words: Sequence[str], seconds: float) -> EngineAnswer:
    """Run a command of a container engine; TimeoutError if it takes longer than `seconds`."""
    process = await asyncio.create_subprocess_exec(
        *(engine, *words),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment(),
    )
    try:
        async with asyncio.timeout(seconds):
            output, errors = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return EngineAnswer(process.returncode or 0, output, errors)
