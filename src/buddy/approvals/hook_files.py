"""The files of a folder that its hooks consist of: the definitions, and the scripts in the folder that they start.

Invariant: a script that a definition names is covered by the same trust, so that changing it ends that trust.
"""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import ValidationError, convert

from buddy.regular_files import read_regular

HOOK_FILES = (".claude/settings.json", ".agents/hooks.json")
SCRIPT_FOLDERS = (".claude/hooks", ".agents/hooks")
MAX_BYTES = 1024 * 1024
MAX_SCRIPTS = 100


def has_hooks(user_file: Path, root: str | None) -> bool:
    """Whether there may be hooks, the user's own or a folder's."""
    places = [str(user_file), *(f"{root}/{name}" for name in HOOK_FILES if root is not None)]
    return any(map(os.path.lexists, places))


def hook_commands(folder: Path, *names: str) -> list[tuple[str, str]]:
    """Each command that a folder's hooks would run, with the event it is for."""
    return [pair for name in names or HOOK_FILES for pair in _commands_of(folder / name)]


def named_scripts(folder: Path) -> list[str]:
    """The files inside the folder, relative to it, that its hooks name."""
    found: set[str] = set()
    for _, command in hook_commands(folder):
        found.update(_scripts_of(command, folder))
    return sorted(found)[:MAX_SCRIPTS]


def hooks_digest(folder: Path) -> str:
    """A hash over the definitions and the scripts that they name; cheap enough for every call."""
    digest = hashlib.sha256()
    for name in (*HOOK_FILES, *named_scripts(folder)):
        try:
            content = read_regular(str(folder / name), MAX_BYTES, follow=True)
        except OSError:
            content = b"-"
        digest.update(f"{name}\0{len(content)}\0".encode(errors="surrogateescape") + content)
    return digest.hexdigest()


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


def _scripts_of(command: str, folder: Path) -> Iterator[str]:
    import shlex

    root = str(folder)
    text = command.replace("${CLAUDE_PROJECT_DIR}", root).replace("$CLAUDE_PROJECT_DIR", root)
    try:
        words = shlex.split(text)
    except ValueError:
        words = text.split()
    for word in words:
        path = os.path.normpath(os.path.join(root, word))  # noqa: PTH118 - a word, not a path yet
        if len(word) < 1024 and path.startswith(f"{root}/") and os.path.isfile(path):  # noqa: PTH113 - as above
            yield path.removeprefix(f"{root}/")
