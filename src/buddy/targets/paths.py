"""The only guard for paths: from text written by a model to an open directory below the workspace.

Invariants:
- the walk goes name by name from an open root and never lets the kernel follow a link, so that nothing swapped in
  meanwhile can lead outside;
- links are resolved manually: they may point anywhere below the root and nowhere else;
- a walk has no side effects.
"""

import errno
import os
import stat as modes
import sys
from functools import lru_cache

from msgspec import Struct

from buddy.errors import ToolError

MAX_PATH = 4096
MAX_LINKS = 40
MAX_STEPS = 10_000

# O_PATH needs only search permission; where it is missing, a directory has to be readable too.
_ENTER = (os.O_PATH if sys.platform == "linux" else os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Location(Struct, frozen=True):
    """Where a walk ended: an open directory, its path, and the names that remain.

    `rest` is empty for the root itself, one name for an entry of `directory` that is not a link or does not exist,
    and more if directories are missing too. `info` is what the walk saw of that entry; None if it does not exist.
    """

    directory: int
    path: str
    rest: tuple[str, ...]
    info: os.stat_result | None = None


def locate(path: str, root: str) -> str:
    """The canonical path, whether it exists or not; ToolError if it leaves the root."""
    check_text(path)
    walk = _Walk(path, root)
    try:
        return walk.go().path
    finally:
        os.close(walk.directory)


class Reach:
    """Walk to a path below `root`; its directory stays open for the duration of the context.

    Without `follows`, the path is the real one already, and a link in it is refused.
    """

    def __init__(self, path: str, root: str, *, follows: bool = True) -> None:
        check_text(path)
        self._walk = _Walk(path, root, follows=follows)

    def __enter__(self) -> Location:
        try:
            return self._walk.go()
        except BaseException:
            os.close(self._walk.directory)
            raise

    def __exit__(self, *_: object) -> None:
        os.close(self._walk.directory)


def enter(name: str, directory: int) -> int:
    """Open a subdirectory; links are refused."""
    return os.open(name, _ENTER, dir_fd=directory)


def check_text(path: str) -> None:
    """Reject what cannot be a path or is ambiguous."""
    if not path:
        raise ToolError("the path is empty; use a path relative to the workspace")
    if "\0" in path:
        raise ToolError("the path contains a NUL byte; use a plain path relative to the workspace")
    if len(path) > MAX_PATH:
        raise ToolError(f"the path has {len(path)} characters, the maximum is {MAX_PATH}; use a shorter one")
    if path.startswith("~"):
        raise ToolError(f"{path!r}: ~ is not expanded; use a path relative to the workspace (./~x for a literal ~)")
    try:
        if not path.isascii():
            os.fsencode(path)
    except UnicodeEncodeError as error:
        raise ToolError("the path contains characters that no file name can have; use a plain path") from error


class _Walk:
    """A walk in progress: its current directory, the names that led there, and those to come."""

    def __init__(self, path: str, root: str, *, follows: bool = True) -> None:
        self.asked = path
        self.follows = follows
        self.given_root, self.root = _roots(root)
        self.names: list[str] = []
        self.pending = self._parts(path)
        self.links = 0
        self.info: os.stat_result | None = None
        try:
            self.directory = os.open(self.root, _ENTER)
        except OSError as error:
            raise ToolError(f"the workspace {self.root} cannot be opened: {error.strerror}") from error

    def go(self) -> Location:
        try:
            rest = self._walk()
        except OSError as error:
            raise ToolError(f"{self.asked!r} cannot be reached: {error.strerror}; check the path") from error
        path = "/".join((self.root.rstrip("/"), *self.names, *rest)) or "/"
        return Location(self.directory, path, rest, self.info)

    def _walk(self) -> tuple[str, ...]:
        for _ in range(MAX_STEPS):
            if not self.pending:
                return ()
            name = self.pending.pop(0)
            if name == "..":
                self._go_up()
            elif self._is_end(name):
                return (name, *self.pending)
        raise ToolError(f"{self.asked[:200]!r} takes too many steps; use a more direct path")

    def _is_end(self, name: str) -> bool:
        """Take one step; True if there is none: the last name, or one that does not exist."""
        target = self._read_link(name)
        if target is not None:
            self._follow(target)
            return False
        if not self.pending:
            return True
        try:
            inner = enter(name, self.directory)
        except FileNotFoundError:
            self._check_missing(name)
            return True
        except NotADirectoryError as error:
            raise ToolError(f"{self.asked!r}: {name!r} is not a directory; check the path") from error
        os.close(self.directory)
        self.directory = inner
        self.names.append(name)
        return False

    def _read_link(self, name: str) -> str | None:
        self.info = None
        try:
            # Most names are no links, and a link that cannot be read is an exception, which takes longer than a look.
            info = os.lstat(name, dir_fd=self.directory)
            if modes.S_ISLNK(info.st_mode):
                return os.readlink(name, dir_fd=self.directory)
        except OSError as error:
            if error.errno in (errno.EINVAL, errno.ENOENT):
                return None
            raise
        self.info = info
        return None

    def _follow(self, target: str) -> None:
        if not self.follows:
            raise ToolError(f"{self.asked!r} is not the path that was approved: a link has taken its place")
        self.links += 1
        if self.links > MAX_LINKS:
            raise ToolError(f"{self.asked!r} follows more than {MAX_LINKS} links; use the file's real path")
        parts = self._parts(target)
        if target.startswith("/"):
            self._restart()
        self.pending = parts + self.pending

    def _go_up(self) -> None:
        # From the root again: one open directory is enough, and the kernel's `..` may lead elsewhere by now.
        if not self.names:
            raise self._outside()
        self.pending = self.names[:-1] + self.pending
        self._restart()

    def _restart(self) -> None:
        directory = os.open(self.root, _ENTER)
        os.close(self.directory)
        self.directory = directory
        self.names = []

    def _check_missing(self, name: str) -> None:
        if ".." in self.pending:
            raise ToolError(f"{self.asked!r}: {name!r} does not exist; check the path", code="FILE_NOT_FOUND")

    def _parts(self, path: str) -> list[str]:
        relative = path
        if path.startswith("/"):
            below = _relative_to(path, self.root)
            below = _relative_to(path, self.given_root) if below is None else below
            below = _relative_to(_real(path), self.root) if below is None else below
            if below is None:
                raise self._outside()
            relative = below
        return [part for part in relative.split("/") if part not in ("", ".")]

    def _outside(self) -> ToolError:
        return ToolError(f"{self.asked!r} is outside the workspace {self.root}; only paths below it are allowed")


@lru_cache(maxsize=1024)
def _roots(root: str) -> tuple[str, str]:
    """A workspace path as given, and its real path."""
    return os.path.abspath(root), os.path.realpath(root)  # noqa: PTH100 - lexical; pathlib has no equivalent


def _real(path: str) -> str:
    """The real path, or the path itself if that is not accessible, such as links of another user's process."""
    try:
        return os.path.realpath(path)
    except OSError:
        return path


def _relative_to(path: str, base: str) -> str | None:
    prefix = base.rstrip("/") + "/"
    if path == base:
        return ""
    return path[len(prefix) :] if path.startswith(prefix) else None
