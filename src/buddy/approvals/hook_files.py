"""The files of a folder that its hooks consist of: the definitions, and the scripts of the repository that they start.

Invariants: a script that a definition names, one that such a script loads, and everything in the folders for scripts
is covered by the same trust, so that changing it ends that trust; linked folders are followed.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import ValidationError, convert

from buddy.errors import UserError
from buddy.file_cache import Dependencies
from buddy.named_files import digest_of, named_files
from buddy.regular_files import read_regular

HOOK_FILES = (".claude/settings.json", ".agents/hooks.json")
SCRIPT_FOLDERS = (".claude/hooks", ".agents/hooks")
MAX_BYTES = 1024 * 1024
MAX_FILES = 500


def has_hooks(user_file: Path, root: str | None) -> bool:
    """Whether there may be hooks, the user's own or a folder's."""
    places = [str(user_file), *(f"{root}/{name}" for name in HOOK_FILES if root is not None)]
    return any(map(os.path.lexists, places))


def hook_commands(folder: Path, *names: str) -> list[tuple[str, str]]:
    """Each command that a folder's hooks would run, with the event it is for."""
    return [pair for name in names or HOOK_FILES for pair in _commands_of(folder / name)]


def named_scripts(folder: Path, looked: Dependencies | None = None) -> list[str]:
    """The files, as absolute paths, that the folder's hooks start; UserError if they are too many."""
    return named_files([command for _, command in hook_commands(folder)], str(folder), looked=looked)


def hooks_digest(folder: Path, looked: Dependencies | None = None) -> str:
    """A hash over the definitions and the scripts that they start; `looked` gets what it depends on."""
    looked = looked or Dependencies()
    definitions = [f"{folder}/{name}" for name in HOOK_FILES]
    looked.update(definitions)
    try:
        scripts = [str(path) for name in SCRIPT_FOLDERS for path in files_below(folder / name, looked)]
        found = (*definitions, *scripts, *named_scripts(folder, looked))
        looked.update(found)
        return digest_of(found)
    except UserError as error:
        return str(error)  # nothing that a trusted folder ever has


def files_below(folder: Path, looked: Dependencies | None = None) -> list[Path]:
    """All files of a directory except installed packages; linked folders are followed, but not in circles.

    `looked` gets every path that decides the result.
    """
    looked = looked or Dependencies()
    looked.add(str(folder))
    found: list[Path] = []
    seen: set[str] = set()
    for base, directories, names in os.walk(folder, followlinks=True):
        real = os.path.realpath(base)
        if real in seen:
            directories.clear()
            continue
        seen.add(real)
        directories[:] = sorted(name for name in directories if name != "node_modules")
        links = [name for name in directories if os.path.islink(os.path.join(base, name))]  # noqa: PTH114, PTH118 - as os.walk gives them
        found += [Path(base, name) for name in (*names, *links)]
        looked.update((base, *(os.path.join(base, name) for name in (*directories, *names))))  # noqa: PTH118 - as os.walk gives them
        if len(found) > MAX_FILES:
            raise UserError(f"{folder} has more than {MAX_FILES} files", hint="reduce it before you trust it")
    return sorted(found)


def _commands_of(path: Path) -> Iterator[tuple[str, str]]:
    try:
        document = msgspec.json.decode(read_regular(str(path), MAX_BYTES, follow=True), type=dict[str, Any])
    except (OSError, msgspec.MsgspecError, RecursionError):
        return
    table = as_table(document.get("hooks", {} if path.name == "settings.json" else document))
    for event, groups in (table or {}).items():
        entries = [
            entry for group in as_list(groups) or () for entry in as_list((as_table(group) or {}).get("hooks")) or ()
        ]
        for entry in entries:
            command = (as_table(entry) or {}).get("command")
            if isinstance(command, str):
                yield event, command


def as_table(value: object) -> dict[str, object] | None:
    """The value, if it is a JSON object."""
    try:
        return convert(value, dict[str, object])
    except ValidationError:
        return None


def as_list(value: object) -> list[object] | None:
    try:
        return convert(value, list[object])
    except ValidationError:
        return None
