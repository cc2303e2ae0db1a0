"""What a tool needs of the place it works on: run a command, read and write files, find what was left behind.

Invariants: every process that a target starts carries `BUDDY_CALL=<nonce>` in its environment, and its children
inherit it, so that whatever they become they can be found and ended; nothing falls back to another target.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Literal, Protocol, runtime_checkable

from msgspec import Struct

OnOutput = Callable[[Literal["stdout", "stderr"], bytes], Awaitable[None]]


class Finished(Struct, frozen=True):
    """How a command ended; a negative exit code is the signal that ended it.

    One that is `still_running` has not: the wait for it was over, and its exit code means nothing yet.
    """

    exit_code: int
    timed_out: bool = False
    still_running: bool = False


class FileStat(Struct, frozen=True):
    size: int
    is_dir: bool
    modified_ns: int


class Entry(Struct, frozen=True):
    """One name in a directory; a link is neither followed nor a directory."""

    name: str
    is_dir: bool
    size: int


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

    async def list_dir(self, path: str, *, root: str) -> list[Entry]:
        """What is in a directory below `root`, by name; ToolError where it is not one or lies outside."""
        ...

    async def kill_orphans(self, nonce: str) -> int:
        """End every process that carries this nonce; give how many there were, 0 where it cannot be reached."""
        ...


@runtime_checkable
class Verifiable(Protocol):
    """A target that may not be there."""

    async def verify(self, root: str) -> None:
        """Go there once; ToolError where it, or the workspace on it, cannot be reached."""
        ...


@runtime_checkable
class Offline(Protocol):
    """A target whose commands have no network."""

    def with_network(self) -> Target:
        """The same place, for one call that was allowed to use it."""
        ...


@runtime_checkable
class Reattachable(Protocol):
    """A target whose commands outlive the process that started them."""

    async def reattach(self, nonce: str, on_output: OnOutput) -> Finished | None:
        """Go on waiting for a command that an earlier process started; None where it cannot be found."""
        ...


class Capture(Struct, frozen=True):
    """What of a pane is wanted, in the words of `tmux capture-pane`."""

    target: str | None = None
    start: str | None = None
    end: str | None = None
    join_wrapped_lines: bool = True
    preserve_trailing_spaces: bool = False
    include_escape_sequences: bool = False
    escape_non_printable: bool = False
    include_alternate_screen: bool = False


class Keys(Struct, frozen=True):
    """What is sent to a pane: named keys, or text as it is."""

    target: str | None = None
    keys: tuple[str, ...] = ()
    literal_text: str | None = None
    enter: bool = False


@runtime_checkable
class Terminal(Protocol):
    """A target whose commands run in a pane that people can watch."""

    async def capture(self, request: Capture) -> str: ...

    async def send_keys(self, keys: Keys) -> None: ...

    async def snapshot(self) -> str:
        """What the pane shows now, short enough for a system prompt; empty where there is none."""
        ...

    def attach_hint(self) -> str:
        """What a person types to watch."""
        ...
