"""Uses the user's repository as a source of contents, so that its files need not be copied.

Invariants: the repository is only read; its packs are kept alive by hard links of our own, because the user may delete
them; whatever is in doubt (filters, line endings, no git) is copied like any other file.
"""

import hashlib
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from buddy.checkpoints.git_index import IndexEntry, read_index, rewrites_content
from buddy.git import Repository, find_git, find_repository, read_objects
from buddy.regular_files import read_regular

MAX_LOOSE = 5000
MAX_ALTERNATES = 5
MAX_LIST = 64 * 1024


class Seed:
    """The objects of the repository that a workspace is in; without one, nothing is found."""

    def __init__(self, root: str, pins: Path) -> None:
        self._repository = find_repository(root) if find_git() else None
        self._all_pins = self._pins = pins
        self.index: dict[str, IndexEntry] = {}
        self.is_exact = True
        """False if a file has to be read to know that its object is its content."""
        self._places: list[str] = []
        if self._repository is not None:
            self.index = read_index(self._repository, root)
            self.is_exact = not rewrites_content(self._repository, self.index)
            self._pins = pins / hashlib.sha256(os.fsencode(self._repository.common)).hexdigest()[:24]

    def find(self, path: str, info: os.stat_result) -> bytes | None:
        """The object with the content of a file that was not touched since git looked at it."""
        entry = self.index.get(path)
        return entry.object_id if entry is not None and entry.has_stat(info) else None

    def read(self, ids: Iterable[bytes]) -> dict[bytes, bytes]:
        """The contents of objects, as far as they still exist."""
        wanted = {one.hex(): one for one in ids}
        found = read_objects(self._object_places(), list(wanted))
        return {wanted[name]: content for name, content in found.items() if name in wanted}

    def pin(self) -> None:
        """Keep the objects of tracked files, also if the repository is deleted."""
        if self._repository is None or not self.index:
            return
        for place in _object_folders(self._repository):
            with suppress(OSError):  # another file system, or no permission: then they are read where they are
                self._link_packs(place)
                self._link_loose(place)

    def forget_index(self) -> None:
        """All files are looked up; objects can still be read."""
        self.index = {}

    def _object_places(self) -> list[str]:
        if not self._places and self._repository is not None:
            self._make_pins()
            self._places = [str(self._pins), *map(str, _object_folders(self._repository))]
        return self._places

    def _make_pins(self) -> None:
        self._all_pins.mkdir(mode=0o700, exist_ok=True)
        self._pins.mkdir(mode=0o700, exist_ok=True)
        os.utime(self._pins)

    def _link_packs(self, place: Path) -> None:
        self._make_pins()
        folder = self._pins / "pack"
        folder.mkdir(mode=0o700, exist_ok=True)
        for path in (place / "pack").glob("pack-*"):
            if path.suffix in (".pack", ".idx"):
                _link(path, folder / path.name)

    def _link_loose(self, place: Path) -> None:
        wanted = {entry.object_id.hex() for entry in self.index.values()}
        linked = 0
        for folder in (one for one in place.iterdir() if len(one.name) == 2):
            names = [name for name in os.listdir(folder) if folder.name + name in wanted]  # noqa: PTH208 - plain names
            linked += len(names)
            if linked > MAX_LOOSE:
                return
            if names:
                (self._pins / folder.name).mkdir(mode=0o700, exist_ok=True)
            for name in names:
                _link(folder / name, self._pins / folder.name / name)


def object_id(content: bytes) -> bytes:
    """The id that git gives to a content."""
    head = b"blob %d\0" % len(content)
    return hashlib.sha1(head + content, usedforsecurity=False).digest()


def _link(source: Path, name: Path) -> None:
    with suppress(FileExistsError):
        os.link(source, name, follow_symlinks=False)


def _object_folders(repository: Repository) -> list[Path]:
    """Where the repository's objects are: its own directory, and those that it borrows from."""
    folders = [repository.common / "objects"]
    for folder in folders:
        if len(folders) > MAX_ALTERNATES:
            break
        with suppress(OSError, ValueError):  # a name may hold anything
            data = read_regular(str(folder / "info" / "alternates"), MAX_LIST, follow=True)
            lines = os.fsdecode(data).splitlines()
            named = [folder / line for line in lines if line and not line.startswith(("#", '"'))]
            folders += [one for one in named if one.is_dir() and one not in folders]
    return folders
