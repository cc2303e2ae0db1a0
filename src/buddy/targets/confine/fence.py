"""What a confined command may touch: the workspace but for its protected paths, and nothing of ours.

What always holds: a protected path is protected also where it does not exist yet, and a directory on the way to one
cannot be moved aside; what had to be made for that is taken away again.
"""

import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from buddy.errors import ToolError

# What a program that comes by later would run: git, an editor, a shell, this one.
PROJECT_DIRS = (".git/hooks",)
PROJECT_FILES = (".git/config", ".git/config.worktree", ".vscode/tasks.json", "buddy.toml", "agent.toml")
HOME_DIRS = (".ssh", ".config/fish", ".config/git", ".config/autostart")
HOME_FILES = (
    *(".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".profile", ".inputrc"),
    *(".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".gitconfig", ".tmux.conf"),
)


class Plan(Struct, frozen=True):
    """For one command: `pins` stay where they are, `readonly` is not written, `hidden` is not seen."""

    root: str
    pins: tuple[str, ...]
    readonly: tuple[str, ...]
    hidden: tuple[str, ...]
    network: bool


class Fence:
    """Around one workspace; `own` are the directories of this program itself."""

    def __init__(self, root: str, *, home: str, own: tuple[str, ...]) -> None:
        self.root = os.path.realpath(root)
        self._own = tuple(os.path.realpath(place) for place in own)
        self._dirs = (*_join(self.root, PROJECT_DIRS), *_join(home, HOME_DIRS), *self._own)
        self._files = (*_join(self.root, PROJECT_FILES), *_join(home, HOME_FILES))
        self._users = 0
        self._made: list[Path] = []

    def check(self, path: str) -> None:
        """Refuse to write a protected path, or what stands where one would be; `path` is canonical."""
        for place in (*self._dirs, *self._files):
            if path == place or path.startswith(f"{place}/") or place.startswith(f"{path}/"):
                raise ToolError(
                    f"{path!r} is protected in a confined session; ask the user to change it", code="WRITE_FAILED"
                )

    @contextmanager
    def raised(self, *, network: bool) -> Generator[Plan]:
        """The plan for a command, while it runs."""
        self._users += 1
        try:
            yield self._plan(network=network)
        finally:
            self._users -= 1
            if self._users == 0:
                self._clear()

    def _plan(self, *, network: bool) -> Plan:
        readonly: dict[str, None] = {}
        pins: dict[str, None] = {}
        for place, is_dir in (*((place, True) for place in self._dirs), *((place, False) for place in self._files)):
            if place != self.root and place.startswith(f"{self.root}/"):
                *above, last = self._walk(place, is_dir=is_dir)
                pins.update(dict.fromkeys(above))
                readonly[last] = None
        hidden = tuple(place for place in self._own if os.path.isdir(place))  # noqa: PTH112 - plain text
        kept = tuple(pin for pin in pins if pin not in readonly)
        return Plan(self.root, kept, tuple(readonly), hidden, network)

    def _walk(self, place: str, *, is_dir: bool) -> Iterator[str]:
        """The paths from below the root to `place`; what is missing first is made, and is the last."""
        at = Path(self.root)
        parts = Path(place).relative_to(at).parts
        for number, part in enumerate(parts):
            at /= part
            is_last = number == len(parts) - 1
            if at.is_symlink():
                raise ToolError(f"{at} is a link, and what it protects could be swapped; a confined run needs its own")
            if not at.exists():
                self._make(at, is_dir=is_dir or not is_last)
                yield str(at)
                return
            yield str(at)
            if not at.is_dir():
                return

    def _make(self, place: Path, *, is_dir: bool) -> None:
        with suppress(FileExistsError):
            if is_dir:
                place.mkdir()
            else:
                place.touch(exist_ok=False)
            self._made.append(place)

    def _clear(self) -> None:
        """Nobody could write there meanwhile, so what is not empty came from outside and stays."""
        for place in reversed(self._made):
            with suppress(OSError):
                if place.is_dir():
                    place.rmdir()
                elif place.stat().st_size == 0:
                    place.unlink()
        self._made.clear()


def _join(base: str, names: tuple[str, ...]) -> Iterator[str]:
    return (os.path.join(os.path.realpath(base), name) for name in names)  # noqa: PTH118 - plain text
