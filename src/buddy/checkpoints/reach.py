"""How far a look at a workspace reached. What it did not see may have been there: nobody can be said to have made it.

Invariants: a change is somebody's only if the path was looked at before it; what is uncertain is nobody's, because an
undo would remove it.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct

from buddy.checkpoints.entries import Change


class Reach(Struct, frozen=True):
    """`skipped` are paths that were not entered; `listed` the directories whose names were read, if not all were.

    `is_partial` without `listed`: some were not, and nobody remembers which.
    """

    skipped: frozenset[str] = frozenset()
    listed: frozenset[str] | None = None
    is_partial: bool = False

    def covered(self, changes: Sequence[Change]) -> list[Change]:
        """The changes that happened since, without those that may be older."""
        if not self.skipped and not self.is_partial:
            return list(changes)
        new = {path for path, before, _ in changes if before is None or before.kind != "directory"}
        return [change for change in changes if self._covers(change, new)]

    def _covers(self, change: Change, new: set[str]) -> bool:
        path, before, after = change
        if self.skipped and any(one in self.skipped for one in _above(path)):
            return False
        if path in self.skipped:  # of a directory that was not entered, the mode was seen
            return before is not None and before.kind == "directory"
        if not self.is_partial:
            return True
        if self.listed is None:
            return before is not None
        # A known file that is gone was looked for by its name.
        return after is None or self._is_listed(_parent(path), new)

    def _is_listed(self, directory: str, new: set[str]) -> bool:
        """Whether its names were read, or would have been: it is new in a directory whose names were."""
        listed = self.listed or frozenset()
        while directory not in listed and directory in new:
            directory = _parent(directory)
        return directory in listed


def joined(reaches: Iterable[Reach]) -> Reach | None:
    """What all of them reached, for when nothing more exact is remembered."""
    found = list(reaches)
    if not found:
        return None
    return Reach(frozenset(path for one in found for path in one.skipped), None, any(one.is_partial for one in found))


def begin_detail(paths: Sequence[str] | None, reach: Reach | None) -> str:
    """What the record of an open checkpoint says: the paths that it watches, or how far the look before it reached."""
    if paths is not None:
        return json.dumps(list(paths))
    if reach is None or not (reach.skipped or reach.is_partial):
        return ""
    return json.dumps({"skipped": sorted(reach.skipped), "partial": reach.is_partial})


def read_begin_detail(detail: str) -> tuple[tuple[str, ...] | None, Reach]:
    found: Any = json.loads(detail) if detail else {}
    if isinstance(found, list):
        return tuple(found), Reach()  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType] - our own list of texts
    return None, Reach(frozenset(found.get("skipped", ())), None, bool(found.get("partial")))


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _above(path: str) -> Iterable[str]:
    while path := _parent(path):
        yield path
