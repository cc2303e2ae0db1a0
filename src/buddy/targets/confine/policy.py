"""What a confined command may touch: the workspace except its protected paths, and none of Buddy's files.

Invariants: a protected path is protected even if it does not exist yet, and a directory on the way to one cannot be
moved aside; placeholders created for that are removed once no command needs them.
"""

import os
import stat
import sys
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cache
from pathlib import Path
from threading import Lock

from msgspec import Struct

from buddy.errors import ToolError
from buddy.targets.confine.devices import device_modes, restore_devices
from buddy.targets.confine.journal import Began, Journal, Made, clean_up, remove_placeholder
from buddy.targets.confine.limits import files_bytes
from buddy.targets.confine.new_repositories import existing, set_aside_names, set_aside_new
from buddy.targets.confine.operations import STATES
from buddy.targets.confine.repositories import DIRS, FILES, configured_paths, placeholder_content, protected_in
from buddy.targets.confine.sharing import WorkspaceUse, has_mark, is_marked, keep_mark, mark_placeholder, one_at_a_time
from buddy.targets.confine.spare_directories import SpareDirectories
from buddy.targets.confine.tree import MARKS, Repositories, is_bare, tree_of
from buddy.targets.protected_names import GUARDED, HOME_DIRS, HOME_FILES, REPLACED

PROJECT = (*(f".git/{name}" for name in DIRS), *REPLACED)
# Git and shells read these if they exist, so an empty file replaces missing ones.
PROJECT_FILES = tuple(f".git/{name}" for name in FILES)


_MATTERS_TO_GIT = MARKS | {*DIRS, *FILES, *STATES}
OWN_CODE = os.path.dirname(os.path.realpath(__file__))  # noqa: PTH120 - plain text
# Replaced by empty directories private to the command.
PRIVATE = ("/tmp", "/var/tmp", "/run")  # noqa: S108 - hidden, not used


class Plan(Struct, frozen=True):
    """For one command: `private` directories are its own, hold up to `files_bytes` and are empty except for what is
    `visible` in them; `pins` cannot be moved, `readonly` cannot be written, `hidden` cannot be seen; `filter` is an
    open file with the filter of system calls, None if a supervisor sets it. With `is_reading`, the workspace is
    read-only, too."""

    root: str
    private: tuple[str, ...]
    visible: tuple[str, ...]
    pins: tuple[str, ...]
    readonly: tuple[str, ...]
    hidden: tuple[str, ...]
    network: bool
    files_bytes: int
    filter: int | None = None
    is_reading: bool = False


class Running(Struct, frozen=True):
    """A command that is about to start: its plan, and what was there before it."""

    plan: Plan
    before: Repositories
    present: list[str]


class Placeholders:
    """Replacements for missing paths, counted over all commands of this process.

    Removing a path ends the mounts on it in every command, so nothing is removed while any command runs, be it of
    another process in the same workspace.
    """

    def __init__(self) -> None:
        self._users = 0
        self._uses: dict[str, WorkspaceUse] = {}
        self._places: dict[str, bytes | None] = {}
        self._journals: set[Journal] = set()
        self._spares: SpareDirectories | None = None
        self._lock = Lock()  # plans are created in threads

    def make(self, place: str, journal: Journal | None, *, is_dir: bool) -> None:
        content = None if is_dir else placeholder_content(place)
        with self._lock, suppress(FileExistsError), keep_mark(os.path.dirname(place)):  # noqa: PTH120 - plain text
            if journal is not None:
                self._journals.add(journal)
                self._spares = journal.spares
                journal.note(Made(place, None if content is None else content.decode()))
            if content is None:
                if journal is None or not journal.spares.take(place):
                    os.mkdir(place)  # noqa: PTH102 - plain text
            else:
                with open(place, "xb") as file:  # noqa: PTH123 - plain text
                    file.write(content)
            self._places[place] = content
            mark_placeholder(place)

    def adopt(self, place: str, *, is_dir: bool) -> None:
        """Remove it in the end, though another process made it: the last one that used it does."""
        with self._lock:
            self._places.setdefault(place, None if is_dir else placeholder_content(place))

    def use(self, root: str) -> None:
        """Keep other processes from removing placeholders in a workspace, until the last command here has ended."""
        with self._lock:
            if root not in self._uses:
                self._uses[root] = WorkspaceUse(root)

    def note(self, journal: Journal, entry: Began) -> None:
        with self._lock:
            self._journals.add(journal)
            journal.note(entry)

    def without(self, places: frozenset[str]) -> frozenset[str]:
        with self._lock:
            others = places.difference(self._places)
        return frozenset(place for place in others if not is_marked(place))

    @contextmanager
    def hold(self, state_dir: Path | None) -> Generator[None]:
        with self._lock:
            self._users += 1
        try:
            yield
        finally:
            with one_at_a_time(state_dir), self._lock:
                self._users -= 1
                if self._users == 0:
                    self._clear()

    def _clear(self) -> None:
        """What another process still uses is left to that process, or to the next command here."""
        for journal in self._journals:
            journal.clear()
        busy = tuple(use.root for use in self._uses.values() if not use.become_exclusive())
        for place, content in [*reversed(self._places.items())]:
            if not any(is_below(place, root) for root in busy):
                remove_placeholder(place, content, self._spares)
                del self._places[place]
        for root, place in ((root, place) for root in busy for place in self._places if is_below(place, root)):
            content = self._places[place]
            for journal in self._journals:
                journal.note(Made(place, None if content is None else content.decode(), root))
        for use in self._uses.values():
            use.end()
        self._uses.clear()


_placeholders = Placeholders()


@cache
def _journal(state_dir: Path) -> Journal:
    """The one of this process; whatever earlier ones left is cleaned up first."""
    clean_up(state_dir)
    return Journal(state_dir)


class ConfinementPolicy:
    """The rules for one workspace; `own` are Buddy's own directories, `files` its own files in other places.

    With a `state_dir`, what a crash leaves in the workspace is cleaned up later.
    """

    def __init__(
        self, root: str, *, home: str, own: tuple[str, ...], files: tuple[str, ...] = (), state_dir: Path | None = None
    ) -> None:
        self.root = os.path.realpath(root)
        self._own = tuple(os.path.realpath(place) for place in own)
        self._state_dir = state_dir
        # The helpers import from all of these, Landlock's before it is confined.
        code = tuple(os.path.realpath(place) for place in (sys.prefix, sys.base_prefix, sys.base_exec_prefix, OWN_CODE))
        self._dirs = (*_join(self.root, PROJECT), *_join(home, HOME_DIRS), *self._own, *code)
        self._files = (*_join(self.root, PROJECT_FILES), *_join(home, HOME_FILES), *map(os.path.realpath, files))
        self._guarded = tuple(_join(self.root, GUARDED))

    def check(self, path: str) -> None:
        """Refuse to write a protected path or one of its parents; `path` is canonical."""
        inside = path.removeprefix(self.root).split("/") if is_below(path, self.root) else []
        places = (*self._dirs, *self._files, *self._guarded)
        places += tuple(place for place, _ in configured_paths(f"{self.root}/.git"))
        met = (path == place or is_below(path, place) or is_below(place, path) for place in places)
        if ".git" in inside or any(met) or self._is_in_bare_repository(path) or self._is_used_by_git(path):
            raise ToolError(
                f"{path!r} is protected in a confined session; ask the user to change it", code="WRITE_FAILED"
            )

    def active(self) -> AbstractContextManager[None]:
        """While this is open, the placeholders of a plan stay."""
        return _placeholders.hold(self._state_dir)

    def begin(self, *, network: bool) -> Running:
        """What one command that starts now needs. It scans the workspace: do not call it in an event loop."""
        journal = None if self._state_dir is None else _journal(self._state_dir)
        _placeholders.use(self.root)
        device_modes()  # before anything could change them
        with one_at_a_time(self._state_dir):
            present = existing(self.root, GUARDED)
            found = self._find()
            if journal is not None:
                operations = sorted(found.operations)
                entry = Began(self.root, sorted(found.places), list(GUARDED), present, device_modes(), operations)
                _placeholders.note(journal, entry)
            return Running(self._plan(found, network=network), found, present)

    def settle(self, running: Running) -> list[str]:
        """Look at what the command left; returns what had to be set aside. It scans the workspace, too."""
        with one_at_a_time(self._state_dir):
            done = set_aside_new(running.before, self._find(), self.root)
            return done + set_aside_names(self.root, GUARDED, running.present) + restore_devices(device_modes())

    def plan(self, *, network: bool) -> Plan:
        """The plan alone."""
        return self._plan(self._find(), network=network)

    def reading_plan(self) -> Plan:
        """For a command that changes nothing: nothing needs a placeholder, and nothing has to be looked at."""
        for place in (*self._dirs, *self._files):
            if is_below(place, self.root):
                self._refuse_links(place)
        return Plan(self.root, PRIVATE, _own_python(), (), (), self._hidden(), False, files_bytes(), is_reading=True)

    def _find(self) -> Repositories:
        """Without the placeholders of commands that are running."""
        found = tree_of(self.root).find()
        return Repositories(_placeholders.without(found.places), found.is_complete, found.operations)

    def _plan(self, found: Repositories, *, network: bool) -> Plan:
        readonly: dict[str, None] = {}
        pins: dict[str, None] = {}
        for place, is_dir in self._protected_paths(found):
            *above, last = self._walk(place, is_dir=is_dir)
            pins.update(dict.fromkeys(above))
            readonly[last] = None
        hidden = self._hidden()
        return Plan(
            self.root,
            PRIVATE,
            _own_python(),
            tuple(pin for pin in pins if pin not in readonly),
            tuple(place for place in readonly if place not in hidden),
            hidden,
            network,
            files_bytes(),
        )

    def _hidden(self) -> tuple[str, ...]:
        return tuple(place for place in self._own if os.path.isdir(place))  # noqa: PTH112 - plain text

    def _protected_paths(self, found: Repositories) -> Iterator[tuple[str, bool]]:
        """The paths below the root that must stay as they are, and whether a directory stands in for each."""
        places = [*((place, True) for place in self._dirs), *((place, False) for place in self._files)]
        places += [(place, True) for place in self._guarded if os.path.lexists(place)]
        places += protected_in(found.places)
        places += [(place, True) for place in found.operations]
        return (place for place in places if is_below(place[0], self.root))

    def _is_in_bare_repository(self, path: str) -> bool:
        """Whether a file would complete what git takes for a repository, or change how one works."""
        at = self.root
        for part in path.removeprefix(self.root).split("/"):
            if part in _MATTERS_TO_GIT and is_bare(frozenset({part, *existing(at, MARKS)})):
                return True
            at = f"{at}/{part}" if part else at
        return False

    def _is_used_by_git(self, path: str) -> bool:
        """Whether a repository takes it from a directory that is none itself."""
        if not _MATTERS_TO_GIT.intersection(path.split("/")):
            return False
        paths = (f"{place}/{name}" for place in self._find().places for name in (*DIRS, *FILES))
        return any(path == used or is_below(path, used) for used in paths)

    def _refuse_links(self, place: str) -> None:
        at = self.root
        for part in place.removeprefix(f"{self.root}/").split("/"):
            at = f"{at}/{part}"
            if os.path.islink(at):  # noqa: PTH114 - plain text
                raise _is_a_link(at)

    def _walk(self, place: str, *, is_dir: bool) -> Iterator[str]:
        """The paths from the root down to `place`; the first missing one is created and ends the walk."""
        journal = None if self._state_dir is None else _journal(self._state_dir)
        at, parts = self.root, place.removeprefix(f"{self.root}/").split("/")
        for number, part in enumerate(parts):
            at = f"{at}/{part}"
            try:
                info = os.lstat(at)
            except (FileNotFoundError, NotADirectoryError):
                is_last = number == len(parts) - 1
                _placeholders.make(at, journal, is_dir=is_dir or not is_last)
                yield at
                return
            if stat.S_ISLNK(info.st_mode):
                raise _is_a_link(at)
            found_dir = stat.S_ISDIR(info.st_mode)
            if has_mark(info):
                _placeholders.adopt(at, is_dir=found_dir)
            yield at
            if not found_dir:
                return


def _is_a_link(place: str) -> ToolError:
    return ToolError(f"{place} is a link, and what it protects could be swapped; a confined run needs its own")


def is_below(place: str, root: str) -> bool:
    return place.startswith(f"{root}/")


def _own_python() -> tuple[str, ...]:
    """Where this interpreter and this package are, if a private directory would hide them: they are needed inside."""
    homes = dict.fromkeys(os.path.realpath(home) for home in (sys.base_prefix, sys.prefix, OWN_CODE))
    return tuple(home for home in homes if any(is_below(home, place) for place in PRIVATE))


def _join(base: str, names: tuple[str, ...]) -> Iterator[str]:
    return (os.path.join(os.path.realpath(base), name) for name in names)  # noqa: PTH118 - plain text
