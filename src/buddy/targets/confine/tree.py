"""The git repositories in a workspace, found again quickly: only directories that changed are read a second time.

Invariants: every directory is looked at, at any depth, also inside repositories, up to a limit; links are not followed;
a directory is read again if it is another one, or changed so recently that another change could have the same time.
"""

import os
import time
from collections import deque
from functools import lru_cache
from threading import Lock

from msgspec import Struct

from buddy.targets.confine.operations import risky_operations
from buddy.targets.confine.pointers import pointed_at

MAX_DIRECTORIES = 200_000
# Coarser than the clock of any file system in use.
RECENT_NS = 2_000_000_000
MARKS = frozenset({".git", "HEAD", "objects", "refs", "commondir"})


class _Seen(Struct, frozen=True):
    version: tuple[int, int, int] | None
    directories: tuple[str, ...]
    marks: frozenset[str]


class Repositories(Struct, frozen=True):
    """`places` are all repositories: the path of each `.git`, of each directory that git takes for a bare one, and of
    those that they use.

    `operations` are unfinished ones that may run something when they are continued. `is_complete` is false if there are
    too many directories.
    """

    places: frozenset[str]
    is_complete: bool = True
    operations: frozenset[str] = frozenset()


class Tree:
    """What is known about the directories of one workspace."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._seen: dict[str, _Seen] = {}
        self._lock = Lock()  # plans are made in threads

    def find(self) -> Repositories:
        with self._lock:
            return self._find()

    def _find(self) -> Repositories:
        seen: dict[str, _Seen] = {}
        places: set[str] = set()
        waiting = deque([self._root])
        while waiting and len(seen) < MAX_DIRECTORIES:
            directory = waiting.popleft()
            try:
                known = self._look(directory)
            except OSError:
                continue
            seen[directory] = known
            if ".git" in known.marks:
                places.add(f"{directory}/.git")
            if is_bare(known.marks):
                places.add(directory)
            waiting.extend(f"{directory}/{name}" for name in known.directories)
        self._seen = seen
        places |= pointed_at(places, self._root)
        return Repositories(frozenset(places), not waiting, frozenset(risky_operations(places)))

    def _look(self, directory: str) -> _Seen:
        info = os.lstat(directory)
        version = (info.st_dev, info.st_ino, info.st_ctime_ns)
        known = self._seen.get(directory)
        if known is not None and known.version == version:
            return known
        # Read by its first look's time: what changes from now on has a later one, unless it is too recent to tell.
        is_recent = info.st_ctime_ns > time.time_ns() - RECENT_NS
        with os.scandir(directory) as entries:
            inner = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
        directories = tuple(name for name, is_dir in inner if is_dir)
        marks = MARKS.intersection(name for name, _ in inner)
        return _Seen(None if is_recent else version, directories, marks)


def is_bare(names: frozenset[str]) -> bool:
    """Whether git takes a directory with these names for a repository."""
    return "HEAD" in names and ("commondir" in names or {"objects", "refs"} <= names)


@lru_cache(maxsize=16)
def tree_of(root: str) -> Tree:
    return Tree(root)
