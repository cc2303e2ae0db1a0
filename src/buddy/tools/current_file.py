"""The file as it is now: on disk, and in the person's editor where that has changes which are not saved.

Invariants: what the editor has is used only if it differs from the disk and the file was not written since; a change
that would lose a person's unsaved text is refused.
"""

from collections.abc import Awaitable

from msgspec import Struct

from buddy.errors import ToolError
from buddy.targets.contract import Target
from buddy.tools.contract import Place
from buddy.unsaved_text import unsaved_text

MAX_UNSAVED = 256 * 1024
UNSAVED = "[the text in the editor, not saved yet; on disk the file is different]"


class CurrentFile(Struct, frozen=True):
    """`saved` is what is on disk; None if there is no such file."""

    path: str
    saved: bytes | None
    unsaved: bytes | None = None

    @property
    def content(self) -> bytes | None:
        return self.saved if self.unsaved is None else self.unsaved


async def unsaved_of(path: str, saved: bytes, place: Place) -> bytes | None:
    """The text that a person has in an editor at a canonical path, if it is not saved."""
    editor = place.editor
    if editor is None or not editor.is_connected or len(saved) > MAX_UNSAVED or b"\0" in saved[:8192]:
        return None
    info = await place.target.stat(path, root=place.root)
    shown = await editor.read(path, info.modified_ns) if info is not None else None
    return None if shown is None or len(shown) > MAX_UNSAVED else unsaved_text(saved, shown)


async def read_current(name: str, place: Place, limit: int, *, must_exist: bool = False) -> CurrentFile:
    """The file of this name as a change has to take it; ToolError if its editor could not take the change."""
    path = await place.target.locate(name, root=place.root)
    read = place.target.read_file(name, root=place.root, limit=limit)
    saved = await (read if must_exist else _unless_missing(read))
    unsaved = None if saved is None else await unsaved_of(path, saved, place)
    if unsaved is not None and place.editor is not None and not place.editor.is_writable:
        raise ToolError(
            f"{name} has changes in the user's editor that are not saved, so it was not written: ask the user to save "
            "or to discard them, then read it again",
            code="STALE_FILE",
        )
    return CurrentFile(path, saved, unsaved)


async def write_current(name: str, current: CurrentFile, content: bytes, target: Target, place: Place) -> str:
    """Write the file, and have an editor with unsaved text show the new one; returns what to add to the result."""
    await target.write_file(name, content, root=place.root)
    if place.editor is None:
        return ""
    if current.saved is not None:
        place.editor.note_replaced(current.path, current.saved)
    if current.unsaved is None:
        return ""
    is_shown = await place.editor.write(current.path, content.decode("utf-8", "replace"))
    note = "the changes in the editor that were not saved are saved with it"
    return f"; {note}" if is_shown else f"; {note}, but the editor did not take the new text and shows the old one"


async def read_if_exists(path: str, place: Place, limit: int) -> bytes | None:
    """The first `limit` bytes of a file; None if it does not exist."""
    return await _unless_missing(place.target.read_file(path, root=place.root, limit=limit))


async def _unless_missing(read: Awaitable[bytes]) -> bytes | None:
    try:
        return await read
    except ToolError as error:
        if error.code == "FILE_NOT_FOUND":
            return None
        raise
