"""Looking at a place without waiting, for what an approval shows.

What always holds: nothing is changed. A target that cannot be looked at without waiting shows paths as they were given
and no present content; it is never answered from another machine's files.
"""

from typing import Protocol, runtime_checkable

from buddy.errors import ToolError
from buddy.targets.contract import FileStat
from buddy.tools.contract import Place


@runtime_checkable
class Inspectable(Protocol):
    """A target whose files can be looked at without waiting."""

    def locate(self, path: str, *, root: str) -> str: ...

    def peek(self, path: str, *, root: str, limit: int) -> bytes: ...

    def look(self, path: str, *, root: str) -> FileStat | None: ...


def canonical(path: str, place: Place) -> str:
    """Where a path really leads; ToolError where that is outside the workspace."""
    return place.target.locate(path, root=place.root) if isinstance(place.target, Inspectable) else path


def present(path: str, place: Place, limit: int) -> bytes | None:
    """The start of the file that is there now; None where there is none, or none can be seen."""
    if not isinstance(place.target, Inspectable):
        return None
    try:
        return place.target.peek(path, root=place.root, limit=limit)
    except ToolError as error:
        if error.code == "FILE_NOT_FOUND":
            return None
        raise


def facts(path: str, place: Place) -> FileStat | None:
    """Size and time of what is there now, or None."""
    return place.target.look(path, root=place.root) if isinstance(place.target, Inspectable) else None
