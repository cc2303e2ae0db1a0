"""Notes for agents: the AGENTS.md of the user and of each folder from the repository's root down.

Invariants: above the workspace, only what belongs to this user or to root counts, a repository as well as its notes;
CLAUDE.md is used if a folder has no AGENTS.md; a file is read through the target, up to 32 KiB; the text is
shown to the model as a marked block and cannot change any policy; an unreadable file is skipped.
"""

from collections.abc import AsyncIterator
from pathlib import Path, PurePosixPath

from msgspec import Struct

from buddy.errors import ToolError
from buddy.regular_files import read_regular
from buddy.tools.contract import Place

NAMES = ("AGENTS.md", "CLAUDE.md")
MAX_BYTES = 32 * 1024
MAX_DEPTH = 32


class Note(Struct, frozen=True):
    path: str
    text: str


async def find_notes(place: Place, user_folder: Path | None) -> list[Note]:
    """All of them, the most general first, so that the nearest to the work comes last."""
    found = [_read_own(user_folder)] if user_folder else []
    found += [await _read(place, folder) async for folder in _folders(place)]
    return [note for note in found if note is not None]


def render_notes(notes: list[Note], most: int) -> str:
    """The notes as marked blocks of at most `most` characters; the nearest ones are cut last."""
    parts: list[str] = []
    for note in reversed(notes):
        text = note.text.strip()
        if len(text) > most:
            text = f"{text[:most]}\n[… cut: {len(text) - most} more characters in {note.path} …]" if most > 0 else ""
        most -= len(text)
        if text:
            text = text.replace("</project-notes", "<\\/project-notes")  # a note cannot end its own block
            parts.append(f'\n<project-notes path="{note.path}">\n{text}\n</project-notes>\n')
    return "".join(reversed(parts))


async def _folders(place: Place) -> AsyncIterator[str]:
    """From the repository's root down to the workspace; only the workspace if there is no repository."""
    here = PurePosixPath(place.root)
    above = [here, *here.parents][:MAX_DEPTH]
    for depth, folder in enumerate(above):
        if await _has_repository(place, str(folder)):
            for known in reversed(above[: depth + 1]):
                yield str(known)
            return
    yield str(here)


async def _has_repository(place: Place, folder: str) -> bool:
    try:
        found = await place.target.stat(".git", root=folder)
    except ToolError:
        return False
    return found is not None and (folder == place.root or not found.is_foreign)


async def _read(place: Place, folder: str) -> Note | None:
    for name in NAMES:
        try:
            if folder != place.root and not await _has_own(place, folder, name):
                continue
            content = await place.target.read_file(name, root=folder, limit=MAX_BYTES)
        except ToolError:
            continue
        return Note(f"{folder.rstrip('/')}/{name}", content[:MAX_BYTES].decode(errors="replace"))
    return None


async def _has_own(place: Place, folder: str, name: str) -> bool:
    """Whether there is a note that nobody else can have written for those who work below."""
    note = await place.target.stat(name, root=folder)
    if note is None or note.is_foreign is None:
        return note is not None
    around = await place.target.stat(".", root=folder)
    return not note.is_foreign and around is not None and not around.is_foreign


def _read_own(folder: Path) -> Note | None:
    path = folder / NAMES[0]
    try:
        return Note(str(path), read_regular(str(path), MAX_BYTES, follow=True).decode(errors="replace"))
    except OSError:
        return None
