"""What a confined command may touch: the workspace except its protected paths, and none of Buddy's files.

Invariants: a protected path is protected even if it does not exist yet, and a directory on the way to one cannot be
moved aside; placeholders created for that are removed once no command of this process needs them.
"""

import os
import sys
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from threading import Lock

from msgspec import Struct

from buddy.errors import ToolError
from buddy.regular_files import read_regular
from buddy.targets.confine.repositories import (
    DIRS,
    FILES,
    configured_paths,
    placeholder_content,
    protected_paths,
    repositories,
)

# What other programs would run later: git, an editor, a shell, another agent, Buddy itself. An empty directory replaces
# what is missing, even a file: `git add` ignores it, and no program mistakes it for a configuration.
PROJECT = (
    *(f".git/{name}" for name in DIRS),
    *(".vscode/tasks.json", ".vscode/settings.json", ".vscode/launch.json", ".envrc"),
    *(".mcp.json", ".opencode", "opencode.json", "opencode.jsonc", ".factory", "buddy.toml", "agent.toml"),
)
# Git and shells read these if they exist, so an empty file replaces missing ones.
PROJECT_FILES = tuple(f".git/{name}" for name in FILES)
HOME_DIRS = (".ssh", ".config/fish", ".config/git", ".config/autostart", ".config/systemd")
HOME_FILES = (
    *(".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".inputrc"),
    *(".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".gitconfig", ".tmux.conf", ".vimrc", ".npmrc"),
)


OWN_CODE = os.path.dirname(os.path.realpath(__file__))  # noqa: PTH120 - plain text
# Replaced by empty directories private to the command.
PRIVATE = ("/tmp", "/var/tmp", "/run")  # noqa: S108 - hidden, not used


class Plan(Struct, frozen=True):
    """For one command: `private` directories are its own and empty except for what is `visible` in them; `pins` cannot
    be moved, `readonly` cannot be written, `hidden` cannot be seen; `filter` is an open file with the filter of system
    calls, None if a supervisor sets it."""

    root: str
    private: tuple[str, ...]
    visible: tuple[str, ...]
    pins: tuple[str, ...]
    readonly: tuple[str, ...]
    hidden: tuple[str, ...]
    network: bool
    filter: int | None = None


class Placeholders:
    """Replacements for missing paths, counted over all commands of this process.

    Removing a path ends the mounts on it in every command, so nothing is removed while any command runs.
    """

    def __init__(self) -> None:
        self._users = 0
        self._places: dict[Path, bytes | None] = {}
        self._lock = Lock()  # plans are created in threads

    def make(self, place: Path, *, is_dir: bool) -> None:
        with self._lock, suppress(FileExistsError):
            if is_dir:
                place.mkdir()
                self._places[place] = None
            else:
                content = placeholder_content(str(place))
                with place.open("xb") as file:
                    file.write(content)
                self._places[place] = content

    @contextmanager
    def hold(self) -> Generator[None]:
        with self._lock:
            self._users += 1
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                if self._users == 0:
                    self._clear()

    def _clear(self) -> None:
        """No confined command could write there, so anything that changed came from outside and stays."""
        for place, content in reversed(self._places.items()):
            with suppress(OSError):
                if content is None:
                    place.rmdir()
                elif read_regular(str(place), len(content) + 1) == content:
                    place.unlink()
        self._places.clear()


_placeholders = Placeholders()


class ConfinementPolicy:
    """The rules for one workspace; `own` are Buddy's own directories."""

    def __init__(self, root: str, *, home: str, own: tuple[str, ...]) -> None:
        self.root = os.path.realpath(root)
        self._own = tuple(os.path.realpath(place) for place in own)
        self._dirs = (*_join(self.root, PROJECT), *_join(home, HOME_DIRS), *self._own)
        self._files = (*_join(self.root, PROJECT_FILES), *_join(home, HOME_FILES))

    def check(self, path: str) -> None:
        """Refuse to write a protected path or one of its parents; `path` is canonical."""
        inside = path.removeprefix(self.root).split("/") if is_below(path, self.root) else []
        places = (*self._dirs, *self._files, *(place for place, _ in configured_paths(f"{self.root}/.git")))
        met = (path == place or is_below(path, place) or is_below(place, path) for place in places)
        if ".git" in inside or any(met):
            raise ToolError(
                f"{path!r} is protected in a confined session; ask the user to change it", code="WRITE_FAILED"
            )

    def active(self) -> AbstractContextManager[None]:
        """While this is open, the placeholders of a plan stay."""
        return _placeholders.hold()

    def plan(self, *, network: bool) -> Plan:
        """The plan for one command that starts now. It scans the workspace: do not call it in an event loop."""
        readonly: dict[str, None] = {}
        pins: dict[str, None] = {}
        for place, is_dir in self._protected_paths():
            *above, last = self._walk(place, is_dir=is_dir)
            pins.update(dict.fromkeys(above))
            readonly[last] = None
        hidden = tuple(place for place in self._own if os.path.isdir(place))  # noqa: PTH112 - plain text
        return Plan(
            self.root,
            PRIVATE,
            _own_python(),
            tuple(pin for pin in pins if pin not in readonly),
            tuple(place for place in readonly if place not in hidden),
            hidden,
            network,
        )

    def _protected_paths(self) -> Iterator[tuple[str, bool]]:
        """The paths below the root that must stay as they are, and whether a directory stands in for each."""
        places = [*((place, True) for place in self._dirs), *((place, False) for place in self._files)]
        places += [place for repository in repositories(self.root) for place in protected_paths(repository)]
        return (place for place in places if is_below(place[0], self.root))

    def _walk(self, place: str, *, is_dir: bool) -> Iterator[str]:
        """The paths from the root down to `place`; the first missing one is created and ends the walk."""
        at = Path(self.root)
        parts = Path(place).relative_to(at).parts
        for number, part in enumerate(parts):
            at /= part
            is_last = number == len(parts) - 1
            if at.is_symlink():
                raise ToolError(f"{at} is a link, and what it protects could be swapped; a confined run needs its own")
            if not at.exists():
                _placeholders.make(at, is_dir=is_dir or not is_last)
                yield str(at)
                return
            yield str(at)
            if not at.is_dir():
                return


def is_below(place: str, root: str) -> bool:
    return place.startswith(f"{root}/")


def _own_python() -> tuple[str, ...]:
    """Where this interpreter and this package are, if a private directory would hide them: they are needed inside."""
    homes = dict.fromkeys(os.path.realpath(home) for home in (sys.base_prefix, sys.prefix, OWN_CODE))
    return tuple(home for home in homes if any(is_below(home, place) for place in PRIVATE))


def _join(base: str, names: tuple[str, ...]) -> Iterator[str]:
    return (os.path.join(os.path.realpath(base), name) for name in names)  # noqa: PTH118 - plain text
