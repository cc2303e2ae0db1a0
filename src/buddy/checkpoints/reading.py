"""Looks at single files of a workspace without following a link on the way.

Invariants: what is reported of a file, content and times, belongs together; a content that cannot be had (too large,
unreadable, changing while it is read) is unknown, never partial.
"""

import os
import time
from collections.abc import Generator
from contextlib import contextmanager

from msgspec.structs import replace

from buddy.checkpoints.entries import UNKNOWN, Entry, entry_of, kind_of
from buddy.checkpoints.scan import OPEN_DIRECTORY
from buddy.regular_files import open_regular, read_up_to

SETTLED_NS = 50_000_000
"""A change within this time after the last one may leave the same times on the file."""
ATTEMPTS = 3


class Found:
    """A file as it is now; `data` is its content, or the place that a link names."""

    __slots__ = ("data", "entry")

    def __init__(self, entry: Entry, data: bytes | None) -> None:
        self.entry = entry
        self.data = data


class Folder:
    """A workspace that is open."""

    def __init__(self, root: str, most: int) -> None:
        self._root = os.open(root, OPEN_DIRECTORY)
        self._most = most

    def close(self) -> None:
        os.close(self._root)

    @contextmanager
    def parent_of(self, path: str) -> Generator[tuple[int, str]]:
        """The directory of a path, opened without following links, and the last name; OSError if there is none."""
        *names, last = path.split("/")
        directory = os.dup(self._root)
        try:
            for name in names:
                inner = os.open(name, OPEN_DIRECTORY, dir_fd=directory)
                os.close(directory)
                directory = inner
            yield directory, last
        finally:
            os.close(directory)

    def stat(self, path: str) -> os.stat_result | None:
        """None if there is nothing, or a link leads there."""
        try:
            with self.parent_of(path) as (directory, name):
                return os.stat(name, dir_fd=directory, follow_symlinks=False)
        except OSError:
            return None

    def lists(self, path: str) -> bool:
        """Whether each name on the way is written exactly like this."""
        try:
            for inner in (path[:at] for at, sign in enumerate(f"{path}/") if sign == "/"):
                with self.parent_of(inner) as (directory, _):
                    if inner.rpartition("/")[2] not in os.listdir(directory):  # noqa: PTH208 - a descriptor
                        return False
        except OSError:
            return False
        return True

    def read(self, path: str) -> Found | None:
        """A file, link or directory as it is now; None if there is nothing that can be kept."""
        try:
            with self.parent_of(path) as (directory, name):
                return _read(directory, name, self._most)
        except OSError:
            return None


def _read(directory: int, name: str, most: int) -> Found | None:
    info = os.stat(name, dir_fd=directory, follow_symlinks=False)
    kind = kind_of(info)
    if kind is None:
        return None
    if kind == "directory":
        return Found(entry_of(kind, info, UNKNOWN), None)
    if kind == "link":
        data = os.fsencode(os.readlink(name, dir_fd=directory))
        return Found(entry_of(kind, info, UNKNOWN, is_settled=_is_settled(info)), data)
    for _ in range(ATTEMPTS):
        if info.st_size > most:
            break
        try:
            opened = open_regular(name, directory=directory)
        except PermissionError:
            break
        try:
            before = os.fstat(opened)
            data = read_up_to(opened, most + 1)
            info = os.fstat(opened)
        finally:
            os.close(opened)
        if len(data) == info.st_size and (before.st_mtime_ns, before.st_size) == (info.st_mtime_ns, info.st_size):
            return Found(entry_of(kind, info, UNKNOWN, is_settled=_is_settled(info)), data)
    return Found(entry_of(kind, info, UNKNOWN), None)


def _is_settled(info: os.stat_result) -> bool:
    return time.time_ns() - info.st_ctime_ns > SETTLED_NS


def with_content(entry: Entry, content: bytes) -> Entry:
    return replace(entry, content=content)
