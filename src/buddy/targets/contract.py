"""What a tool needs of the place it works on: run a command, read and write files, find what was left behind.

What always holds: every process that a target starts carries `BUDDY_CALL=<nonce>` in its environment, and its children
inherit it, so that whatever they become they can be found and ended; nothing falls back to another target.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Literal, Protocol

from msgspec import Struct

OnOutput = Callable[[Literal["stdout", "stderr"], bytes], Awaitable[None]]


class Finished(Struct, frozen=True):
    """How a command ended; a negative exit code is the signal that ended it."""

    exit_code: int
    timed_out: bool = False


class FileStat(Struct, frozen=True):
    size: int
    is_dir: bool
    modified_ns: int


class Target(Protocol):
    name: str

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
        """Run a shell command in a process group of its own; cancelling the caller ends the whole group."""
        ...

    async def read_file(self, path: str, *, root: str, limit: int) -> bytes:
        """At most `limit` bytes of a regular file below `root`; ToolError where it is not one or lies outside."""
        ...

    async def write_file(self, path: str, content: bytes, *, root: str) -> None:
        """Replace the file whole, or not at all; parents are made; ToolError outside `root`."""
        ...

    async def stat(self, path: str, *, root: str) -> FileStat | None: ...

    async def locate(self, path: str, *, root: str) -> str:
        """Where a path really leads, links followed; ToolError where that is outside `root`."""
        ...

    async def end_strays(self, nonce: str) -> int:
        """End every process that carries this nonce; give how many there were."""
        ...
