"""What confined commands have put into workspaces for now, on disk: after a crash, the next process cleans up.

Invariants: a line is written before what it announces; the file of a living process is locked and left alone.
"""

import fcntl
import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from buddy.regular_files import read_regular
from buddy.targets.confine.devices import restore_devices
from buddy.targets.confine.new_repositories import set_aside_names, set_aside_new
from buddy.targets.confine.repositories import placeholder_content
from buddy.targets.confine.sharing import exclusive_use, is_marked, keep_mark, one_at_a_time
from buddy.targets.confine.spare_directories import SpareDirectories
from buddy.targets.confine.tree import Repositories, tree_of

FOLDER = "confined"
MAX_BYTES = 64 * 1024 * 1024


class Made(Struct, frozen=True, tag="made"):
    """A placeholder; `content` is None for a directory. `root` is the workspace, if it is known."""

    path: str
    content: str | None
    root: str = ""


class Began(Struct, frozen=True, tag="began"):
    """A command in a workspace: what was there before it, of repositories, files of `names` and modes of devices."""

    root: str
    places: list[str]
    names: list[str]
    present: list[str]
    modes: dict[str, int] = {}
    operations: list[str] = []


class Journal:
    def __init__(self, state_dir: Path) -> None:
        self._folder = state_dir / FOLDER
        self.spares = SpareDirectories(self._folder)
        self._opened = -1

    def note(self, entry: Made | Began) -> None:
        if self._opened < 0:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
            self._opened = os.open(self._folder / f"{os.getpid()}.jsonl", flags, 0o600)
            fcntl.flock(self._opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.write(self._opened, msgspec.json.encode(entry) + b"\n")

    def clear(self) -> None:
        """Nothing is left to clean up."""
        if self._opened >= 0:
            os.ftruncate(self._opened, 0)


def clean_up(state_dir: Path) -> list[str]:
    """Remove what processes that are gone have left; returns what was set aside in workspaces.

    A workspace in which another process runs commands now is left for later.
    """
    done: list[str] = []
    with suppress(OSError), one_at_a_time(state_dir):
        for path in sorted((state_dir / FOLDER).glob("*.jsonl")):
            with _claim(path) as is_ours:
                entries = list(_read(path)) if is_ours else []
                with exclusive_use({entry.root for entry in entries}) as is_alone:
                    if is_ours and is_alone:
                        done += _undo(entries)
                        path.unlink()
    return done


def remove_placeholder(place: str, content: bytes | None, spares: SpareDirectories | None = None) -> None:
    """Remove it, with what another process put into it, if it is what was made: anything else stays."""
    with suppress(OSError), keep_mark(os.path.dirname(place)):  # noqa: PTH120 - plain text
        if content is None:
            if spares is None or not spares.keep(place):
                _remove_directory(place)
        elif read_regular(place, len(content) + 1) == content:
            os.unlink(place)  # noqa: PTH108 - plain text


def _remove_directory(place: str) -> None:
    with suppress(OSError):
        os.rmdir(place)  # noqa: PTH106 - plain text
        return
    for name in os.listdir(place):  # noqa: PTH208 - plain text
        inner = f"{place}/{name}"
        if is_marked(inner):
            remove_placeholder(inner, None if os.path.isdir(inner) else placeholder_content(inner))  # noqa: PTH112 - plain text
    os.rmdir(place)  # noqa: PTH106 - plain text


def _undo(entries: list[Made | Began]) -> list[str]:
    done: list[str] = []
    for entry in reversed(entries):
        if isinstance(entry, Made):
            remove_placeholder(entry.path, None if entry.content is None else entry.content.encode())
    for entry in entries:
        if isinstance(entry, Began):
            before = Repositories(frozenset(entry.places), operations=frozenset(entry.operations))
            done += set_aside_new(before, tree_of(entry.root).find(), entry.root)
            done += set_aside_names(entry.root, entry.names, entry.present)
            done += restore_devices(entry.modes)
    return done


def _read(path: Path) -> Iterator[Made | Began]:
    for line in read_regular(str(path), MAX_BYTES).splitlines():
        with suppress(msgspec.DecodeError):
            yield msgspec.json.decode(line, type=Made | Began)


@contextmanager
def _claim(path: Path) -> Generator[bool]:
    """Whether the process that wrote it is gone, and nobody else cleans up."""
    opened = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(opened)
