"""The links to objects of the users' repositories: how much room they take that nothing else does.

A link costs nothing while the repository has the file, too. When it is repacked or deleted, the file is ours alone.
"""

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

FOLDER = "pins"


def own_size(folder: Path) -> int:
    """The size of what only we still have."""
    return sum(info.st_size for _, info in _own_files(folder / FOLDER))


def drop_oldest(folder: Path) -> bool:
    """Remove what only we still have of the repository that was not used for longest; False if there is none."""
    for pins in sorted((folder / FOLDER).glob("*"), key=lambda one: one.lstat().st_mtime):
        if files := [path for path, _ in _own_files(pins)]:
            for path in files:
                path.unlink(missing_ok=True)
            return True
    return False


def drop_unused(folder: Path, oldest: float) -> None:
    """Remove links to repositories that no workspace was in since; each use of a repository renews it."""
    for pins in (folder / FOLDER).glob("*"):
        if pins.lstat().st_mtime < oldest:
            shutil.rmtree(pins, ignore_errors=True)


def _own_files(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                info = Path(place, name).lstat()
                if stat.S_ISREG(info.st_mode) and info.st_nlink == 1:
                    yield Path(place, name), info
