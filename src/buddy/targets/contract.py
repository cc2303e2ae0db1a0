"""What a tool needs from its target: run commands, read and write files, find what was left behind.

Invariants: every process that a target starts carries `BUDDY_CALL=<nonce>` in its environment, and its children
inherit it, so they can always be found and killed; nothing falls back to another target.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Literal, Protocol, runtime_checkable

from msgspec import Struct

from buddy.capabilities import has

OnOutput = Callable[[Literal["stdout", "stderr"], bytes], Awaitable[None]]


class Finished(Struct, frozen=True):
    """How a command ended; a negative exit code is the signal that ended it.

    With `still_running` it has not ended: the wait timed out, and the exit code has no meaning yet.
    """

    exit_code: int
    timed_out: bool = False
    still_running: bool = False


class FileStat(Struct, frozen=True):
    """`is_foreign`: somebody else than this user or root owns it, or anybody may write it; None if that is unknown."""

    size: int
    is_dir: bool
    modified_ns: int
    is_foreign: bool | None = None


class Entry(Struct, frozen=True):
    """One directory entry; links are not followed and do not count as directories."""

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
        """Run a shell command in its own process group; cancelling the caller ends the entire group."""
        ...

    async def read_file(self, path: str, *, root: str, limit: int) -> bytes:
        """Up to `limit` bytes of a regular file below `root`; ToolError if it is not one or lies outside."""
        ...

    async def write_file(self, path: str, content: bytes, *, root: str) -> None:
        """Replace the file atomically, creating parent directories; ToolError outside `root`."""
        ...

    async def stat(self, path: str, *, root: str) -> FileStat | None: ...

    async def locate(self, path: str, *, root: str) -> str:
        """The real path, links followed; ToolError if it is outside `root`."""
        ...

    async def list_dir(self, path: str, *, root: str) -> list[Entry]:
        """The entries of a directory below `root`, sorted by name; ToolError if it is not one or lies outside."""
        ...

    async def kill_orphans(self, nonce: str) -> int:
        """Kill every process that carries this nonce; return how many, 0 if the target cannot be reached."""
        ...


@runtime_checkable
class Verifiable(Protocol):
    """A target that may be unavailable."""

    async def verify(self, root: str) -> None:
        """Contact it once; ToolError if it or its workspace cannot be reached."""
        ...


@runtime_checkable
class Offline(Protocol):
    """A target whose commands have no network."""

    def with_network(self) -> Target:
        """The same target with network access, for one call that was allowed to use it."""
        ...

    def outside(self) -> Target:
        """The same place without confinement, for one call that was allowed to leave it."""
        ...


@runtime_checkable
class LinkAware(Protocol):
    """A target whose searches can leave out files that have other names."""

    def has_unknown_links(self, path: str) -> bool:
        """Whether another name of this file may be outside the workspace."""
        ...


@runtime_checkable
class ExactFiles(Protocol):
    """A target that can read at a real path without following a link that has taken its place."""

    async def read_exact(self, path: str, *, limit: int) -> bytes: ...

    async def list_exact(self, path: str) -> list[Entry]: ...


@runtime_checkable
class FencedTarget(Protocol):
    """Refuses to start anything for a session under an old epoch; `fence` is `SESSION:EPOCH`, or empty."""

    fence: str


@runtime_checkable
class Unconnected(Protocol):
    """A target that may have been proven to have no network, and cannot be given any."""

    async def is_offline(self) -> bool:
        """Whether it has none; false if that is not known."""
        ...


@runtime_checkable
class Reattachable(Protocol):
    """A target whose commands outlive the process that started them."""

    async def reattach(self, nonce: str, on_output: OnOutput) -> Finished | None:
        """Resume waiting for a command that an earlier process started; None if it cannot be found."""
        ...


class Capture(Struct, frozen=True):
    """What to capture, in the terms of `tmux capture-pane`."""

    target: str | None = None
    start: str | None = None
    end: str | None = None
    join_wrapped_lines: bool = True
    preserve_trailing_spaces: bool = False
    include_escape_sequences: bool = False
    escape_non_printable: bool = False
    include_alternate_screen: bool = False


class Keys(Struct, frozen=True):
    """What to send to a pane: named keys or literal text."""

    target: str | None = None
    keys: tuple[str, ...] = ()
    literal_text: str | None = None
    enter: bool = False


class PaneInfo(Struct, frozen=True):
    """A pane as it is now. `is_own`: it is the one in which the session's commands run."""

    pane_id: str
    is_own: bool
    where: str = ""
    command: str = ""
    title: str = ""


@runtime_checkable
class Terminal(Protocol):
    """A target whose commands run in a pane that people can watch."""

    without_terminal: Target
    """The same place without the pane, for commands that nobody needs to see."""

    async def find_pane(self, target: str | None) -> PaneInfo:
        """The pane that a target names, the session's own without one; ToolError if there is none."""
        ...

    async def capture(self, request: Capture) -> str: ...

    async def send_keys(self, keys: Keys) -> None: ...

    async def snapshot(self) -> str:
        """The pane's current content, short enough for a system prompt; empty if there is no pane."""
        ...

    def attach_hint(self) -> str:
        """The command line for a person to watch."""
        ...


@runtime_checkable
class LeavableTerminal(Terminal, Protocol):
    """A pane that can be removed when the last session that uses it is closed."""

    async def leave(self) -> None:
        """Remove the pane, unless a person or a program is using it."""
        ...


def without_terminal(target: Target) -> Target:
    """The target itself, or the one behind its pane."""
    return target.without_terminal if has(target, Terminal) else target
