"""Changes to a person's own `buddy.toml` that touch nothing else in it.

Invariants: the file is read again before it is written, checked before it replaces the old one, and replaced in one
step; comments and order are preserved.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError

from buddy.errors import UserError
from buddy.shared_files import locked, replace_content

# A TOML document with its comments; the library has no useful types for its nodes.
Document = Any


def change_file(path: Path, change: Callable[[Document], None], misplaced: str) -> None:
    """Change the file, or create it; `misplaced` says what is wrong if it has something else in that place."""
    path = path.resolve()  # keep a symbolic link to a file elsewhere
    try:
        with locked(path):
            replace_content(path, _changed(path, change, misplaced).encode())
    except OSError as error:
        hint = "check this file and its permissions, then try again"
        raise UserError(f"{error.filename or path}: {error.strerror}", hint=hint) from error


def _changed(path: Path, change: Callable[[Document], None], misplaced: str) -> str:
    try:
        document = tomlkit.parse(path.read_text() if path.exists() else "")
        change(document)
        text = tomlkit.dumps(document)
        tomlkit.parse(text)
    except (TOMLKitError, ValueError, AttributeError) as error:
        reason = misplaced if isinstance(error, AttributeError) else error
        raise UserError(f"{path}: {reason}", hint="correct the file, then try again") from error
    return text
