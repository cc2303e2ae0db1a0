"""Where the files of a repository are: `.git` may be a file that names them, and `commondir` names those it shares.

Invariants: paths are read as git reads them, to the last space; what is read is bounded, and links are not opened.
"""

import os
import stat
from collections.abc import Iterable
from contextlib import suppress

from buddy.regular_files import read_regular

MAX_POINTER = 16 * 1024
_PREFIX = b"gitdir: "


def directory_of(place: str) -> str:
    """The directory of a repository; ValueError or OSError if git finds none there."""
    if stat.S_ISDIR(os.lstat(place).st_mode):
        return place
    text = read_regular(place, MAX_POINTER)
    if not text.startswith(_PREFIX):
        raise ValueError(place)
    return _join(os.path.dirname(place), text.removeprefix(_PREFIX))  # noqa: PTH120 - plain text


def common_of(directory: str) -> str:
    """The directory with the configuration and hooks of a repository."""
    if not os.path.lexists(f"{directory}/commondir"):
        return directory
    return _join(directory, read_regular(f"{directory}/commondir", MAX_POINTER))


def pointed_at(places: Iterable[str], root: str) -> frozenset[str]:
    """The directories below `root` that these repositories use, in their real places."""
    waiting, found = list(places), set[str]()
    while waiting:
        place = waiting.pop()
        with suppress(OSError, ValueError):
            directory = os.path.realpath(directory_of(place))
            used = {os.path.realpath(common_of(directory)), directory}
            # One that is no repository yet is judged when it becomes one; what is shared needs no `HEAD`.
            used -= set() if os.path.lexists(f"{directory}/HEAD") else {directory}
            new = {at for at in used if f"{at}/".startswith(f"{root}/")} - found
            found |= new
            waiting.extend(new)
    return frozenset(found)


def _join(base: str, written: bytes) -> str:
    """As git does: without the ends of lines alone, so that a space at the end belongs to the name."""
    path = os.fsdecode(written.rstrip(b"\r\n"))
    if not path or len(written) >= MAX_POINTER or any(mark in path for mark in "\n\0"):
        raise ValueError(path)
    return os.path.join(base, path)  # noqa: PTH118 - plain text
