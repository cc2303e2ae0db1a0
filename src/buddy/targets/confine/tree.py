"""The git repositories in a workspace, found again quickly: only directories that changed are read a second time.

Invariants: every directory is looked at, at any depth, up to a limit; links are not followed; a directory whose change
time is so recent that another change could have the same one is read again.
"""

import os
import time
from collections import deque
from functools import lru_cache
from threading import Lock

from msgspec import Struct

MAX_DIRECTORIES = 200_000
# Coarser than the clock of any file system in use.
RECENT_NS = 2_000_000_000
MARKS = frozenset({".git", "HEAD", "objects", "refs", "commondir"})


class _Seen(Struct, frozen=True):
    changed_ns: int
    directories: tuple[str, ...]
    marks: frozenset[str]


class Repositories(Struct, frozen=True):
    """`places` are all repositories: the path of each `.git`, and of each directory that git takes for a bare one.

    `is_complete` is false if there are too many directories.
    """

    places: frozenset[str]
    is_complete: bool = True


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
                # Git uses what it finds there when somebody initializes a submodule of that name.
                waiting.append(f"{directory}/.git/modules")
            if is_bare(known.marks):
                places.add(directory)
            waiting.extend(f"{directory}/{name}" for name in known.directories)
        self._seen = seen
        return Repositories(frozenset(places), not waiting)

    def _look(self, directory: str) -> _Seen:
        changed_ns = os.lstat(directory).st_ctime_ns
        known = self._seen.get(directory)
        if known is not None and known.changed_ns == changed_ns:
            return known
        # Read by its first look's time: what changes from now on has a later one, unless it is too recent to tell.
        is_recent = changed_ns > time.time_ns() - RECENT_NS
        with os.scandir(directory) as entries:
            inner = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
        directories = tuple(name for name, is_dir in inner if is_dir and name != ".git")
        marks = MARKS.intersection(name for name, _ in inner)
        return _Seen(0 if is_recent else changed_ns, directories, marks)


def is_bare(names: frozenset[str]) -> bool:
    """Whether git takes a directory with these names for a repository."""
    return "HEAD" in names and ("commondir" in names or {"objects", "refs"} <= names)


@lru_cache(maxsize=16)
def tree_of(root: str) -> Tree:
    return Tree(root)
