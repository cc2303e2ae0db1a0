"""Finds what changed in a workspace since it was last looked at, by the times of its files.

Invariants: no link is followed, also if one takes the place of a directory meanwhile; nothing is opened but
directories; version control's own directories and other file systems are not entered; time and number are bounded.
"""

import os
import stat
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

from msgspec import Struct, field

from buddy.checkpoints.entries import Entry, kind_of
from buddy.checkpoints.limits import HEAVY, MAX_HEAVY, REPOSITORY, CheckpointLimits

MAX_DEPTH = 200
OPEN_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Scan(Struct):
    """`present` are all paths that were found; `changed` those whose times differ from what is known.

    `skipped` are directories that were not entered, and why; what is known of them stays as it is. So does what is
    known of `private` ones, which are nobody's business and need no reason. `is_complete` is
    false if the limits on files or time were reached; `listed` are the directories whose names were read.
    """

    present: set[str] = field(default_factory=set[str])
    changed: dict[str, os.stat_result] = field(default_factory=dict[str, os.stat_result])
    skipped: dict[str, str] = field(default_factory=dict[str, str])
    private: set[str] = field(default_factory=set[str])
    listed: set[str] = field(default_factory=set[str])
    is_complete: bool = True


class Scanner:
    def __init__(self, root: str, private: tuple[str, ...], limits: CheckpointLimits) -> None:
        self._root = root
        self._private = private
        self._limits = limits

    def scan(self, known: Mapping[str, Entry], seconds: float | None = None) -> Scan:
        """Look at everything below the root; OSError if the root itself cannot be opened."""
        found = Scan()
        deadline = None if seconds is None else time.monotonic() + seconds
        root = os.open(self._root, OPEN_DIRECTORY)
        try:
            device = os.fstat(root).st_dev
            walk = _Walk(found, known, device, self._limits.max_files, deadline, self._is_private)
            walk.enter(root, "", 0, None)
        finally:
            os.close(root)
        return found

    def _is_private(self, path: str) -> bool:
        return bool(self._private) and f"{self._root}/{path}" in self._private


class _Walk:
    def __init__(
        self,
        found: Scan,
        known: Mapping[str, Entry],
        device: int,
        most: int,
        deadline: float | None,
        is_private: Callable[[str], bool],
    ) -> None:
        self._found = found
        self._known = known
        self._device = device
        self._most = most
        self._deadline = deadline
        self._is_private = is_private

    def enter(self, directory: int, prefix: str, depth: int, heavy: list[int] | None) -> None:
        """`heavy` counts what may still be found in a directory that tools fill."""
        found, known = self._found, self._known
        inner: list[str] = []
        with os.scandir(directory) as entries:
            for entry in entries:
                path = prefix + entry.name
                try:
                    info = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue  # it disappeared
                except OSError as error:
                    found.skipped[path] = _reason(error)
                    continue
                is_directory = stat.S_ISDIR(info.st_mode)
                if entry.name in REPOSITORY or (is_directory and not self._is_entered(path, info)):
                    continue
                _count(heavy)
                found.present.add(path)
                before = known.get(path)
                if (before is None or not before.has_stat(info)) and kind_of(info) is not None:
                    found.changed[path] = info
                if is_directory:
                    inner.append(entry.name)
        found.listed.add(prefix.rstrip("/"))
        if len(found.present) > self._most or (self._deadline is not None and time.monotonic() > self._deadline):
            found.is_complete = False
            return
        for name in inner:
            if not found.is_complete:
                return
            self._enter_child(directory, name, prefix + name, depth + 1, heavy)

    def _enter_child(self, directory: int, name: str, path: str, depth: int, heavy: list[int] | None) -> None:
        if depth > MAX_DEPTH:
            self._found.skipped[path] = "nested too deeply"
            return
        try:
            child = os.open(name, OPEN_DIRECTORY, dir_fd=directory)
        except OSError as error:
            # It may have been removed, or replaced by a link; then the next scan sees that.
            with suppress(FileNotFoundError):
                os.stat(name, dir_fd=directory, follow_symlinks=False)
                self._found.skipped[path] = _reason(error)
            return
        try:
            if heavy is None and name in HEAVY:
                self._enter_heavy(child, path, depth)
            else:
                self.enter(child, f"{path}/", depth, heavy)
        finally:
            os.close(child)

    def _enter_heavy(self, child: int, path: str, depth: int) -> None:
        """A directory that tools fill is covered as long as it is small."""
        found, inner = self._found, Scan()
        walk = _Walk(inner, self._known, self._device, self._most, self._deadline, self._is_private)
        try:
            walk.enter(child, f"{path}/", depth, [MAX_HEAVY])
        except _TooHeavy:
            found.skipped[path] = f"more than {MAX_HEAVY} files that a tool can create again"
            return
        found.present |= inner.present
        found.changed |= inner.changed
        found.skipped |= inner.skipped
        found.private |= inner.private
        found.listed |= inner.listed
        found.is_complete &= inner.is_complete

    def _is_entered(self, path: str, info: os.stat_result) -> bool:
        if info.st_dev != self._device:
            self._found.skipped[path] = "another file system"
            return False
        if self._is_private(path):
            self._found.private.add(path)
            return False
        return True


def _reason(error: OSError) -> str:
    return (error.strerror or "cannot be read").lower()


def _count(heavy: list[int] | None) -> None:
    if heavy is not None:
        heavy[0] -= 1
        if heavy[0] < 0:
            raise _TooHeavy


class _TooHeavy(Exception):
    """A directory that tools fill has too many files."""
