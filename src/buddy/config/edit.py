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


def change_file(
    path: Path,
    change: Callable[[Document], None],
    misplaced: str,
    change_text: Callable[[str], str | None] = lambda _: None,
) -> None:
    """Change the file, or create it; `misplaced` says what is wrong if it has something else in that place.

    `change_text` may do it without parsing comments, which takes seconds for a long file; None if it can't.
    """
    path = path.resolve()  # keep a symbolic link to a file elsewhere
    try:
        with locked(path):
            text = _complete_lines(path.read_text() if path.exists() else "")
            replace_content(path, (change_text(text) or _changed(text, change)).encode())
    except OSError as error:
        hint = "check this file and its permissions, then try again"
        raise UserError(f"{error.filename or path}: {error.strerror}", hint=hint) from error
    except (TOMLKitError, ValueError, AttributeError) as error:
        reason = misplaced if isinstance(error, AttributeError) else error
        raise UserError(f"{path}: {reason}", hint="correct the file, then try again") from error


def _changed(text: str, change: Callable[[Document], None]) -> str:
    document = tomlkit.parse(text)
    change(document)
    changed = tomlkit.dumps(document)
    tomlkit.parse(changed)
    return changed


def _complete_lines(text: str) -> str:
    """With an end to its last line, which the library does not add before it appends to it."""
    return text if not text or text.endswith("\n") else f"{text}\n"
