"""A file as a checkpoint knows it, and a change of one.

Invariants: `content` is the SHA-256 of a content in the store, a reference to an object of the user's repository
(`GIT` and its id), or empty if nobody kept it; two entries are the same file only if both contents are known.
"""

import os
import stat
from typing import Literal, NamedTuple

from msgspec import Struct

Kind = Literal["file", "link", "directory"]
UNKNOWN = b""
GIT = b"git:"
_LARGEST = (1 << 63) - 1
"""The largest number that the store holds; some file systems have inodes beyond it."""


class Entry(Struct, frozen=True, gc=False):
    """Times, inode and size tell whether the file may have changed; they are not restored.

    `is_settled`: it was read so long after its last change that a later change shows in its times.
    """

    kind: Kind
    mode: int
    content: bytes = UNKNOWN
    size: int = 0
    modified: int = 0
    changed: int = 0
    inode: int = 0
    is_settled: bool = True

    @property
    def is_known(self) -> bool:
        return self.kind == "directory" or self.content != UNKNOWN

    def has_stat(self, info: os.stat_result) -> bool:
        """Whether the file has not been touched since; of a directory only the mode counts."""
        return self.has_times(info) and (self.is_settled or self.kind == "directory")

    def has_times(self, info: os.stat_result) -> bool:
        """The same as far as times tell, which may be too coarse for a change in the same moment."""
        if self.kind == "directory":
            return stat.S_ISDIR(info.st_mode) and self.mode == stat.S_IMODE(info.st_mode)
        return (
            self.changed == info.st_ctime_ns
            and self.modified == info.st_mtime_ns
            and self.size == info.st_size
            and self.inode == info.st_ino & _LARGEST
            and self.mode == stat.S_IMODE(info.st_mode)
        )


class Change(NamedTuple):
    """What happened to a path, relative to the workspace; None: it did not exist."""

    path: str
    before: Entry | None
    after: Entry | None

    @property
    def word(self) -> Literal["added", "modified", "deleted"]:
        if self.before is None:
            return "added"
        return "deleted" if self.after is None else "modified"


def is_same(one: Entry | None, other: Entry | None) -> bool:
    """Whether both are the same file: kind, mode and content. The mode of a link has no meaning."""
    if one is None or other is None:
        return one is other
    if one.kind != other.kind or (one.kind != "link" and one.mode != other.mode):
        return False
    return one.kind == "directory" or (one.content == other.content and one.content != UNKNOWN)


def kind_of(info: os.stat_result) -> Kind | None:
    """None for what is not kept: pipes, sockets, devices."""
    if stat.S_ISREG(info.st_mode):
        return "file"
    if stat.S_ISDIR(info.st_mode):
        return "directory"
    return "link" if stat.S_ISLNK(info.st_mode) else None


def entry_of(kind: Kind, info: os.stat_result, content: bytes, *, is_settled: bool = True) -> Entry:
    mode = stat.S_IMODE(info.st_mode)
    if kind == "directory":
        return Entry(kind, mode)
    times = (info.st_size, info.st_mtime_ns, info.st_ctime_ns, info.st_ino & _LARGEST)
    return Entry(kind, mode, content, *times, is_settled)


def shown_path(path: str) -> str:
    """A path as text for people and for JSON: bytes that are no UTF-8 are written as `\\xNN`."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")
