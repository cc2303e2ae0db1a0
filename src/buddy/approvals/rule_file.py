"""The rules in a person's own `buddy.toml`: added and removed without touching anything else in it.

Invariants: the file is read again before it is written, checked before it replaces the old one, and replaced in one
step; comments and order are preserved.
"""

import fcntl
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TextIO

from buddy.errors import UserError

# A TOML document with its comments; the library has no useful types for its nodes.
Document = Any


def add_rule(path: Path, rule: Mapping[str, Any]) -> None:
    """Add a `[[permissions.rules]]`; create the file if it does not exist."""
    import tomlkit

    def change(document: Document) -> None:
        rules = document.setdefault("permissions", tomlkit.table()).setdefault("rules", tomlkit.aot())
        table = tomlkit.inline_table() if _is_inline(rules) else tomlkit.table()
        for key, value in rule.items():
            table[key] = value
        rules.append(table)

    _change(path, change)


def _is_inline(rules: object) -> bool:
    """Whether the rules are written as one array; new ones are then added to it."""
    from tomlkit.items import AoT

    return not isinstance(rules, AoT)


def remove_rules(path: Path, should_remove: Callable[[Mapping[str, Any]], bool]) -> int:
    """Remove the rules for which this is true; return how many."""
    removed = 0

    def change(document: Document) -> None:
        nonlocal removed
        rules = document.get("permissions", {}).get("rules", [])
        for index in reversed(range(len(rules))):
            if should_remove(rules[index].unwrap()):
                del rules[index]
                removed += 1

    if path.exists():
        _change(path, change)
    return removed


def _change(path: Path, change: Callable[[Document], None]) -> None:
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    path = path.resolve()  # keep a symbolic link to a file elsewhere
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _create(path.with_name(f".{path.name}.lock"), os.O_RDWR) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            document = tomlkit.parse(path.read_text() if path.exists() else "")
            change(document)
            text = tomlkit.dumps(document)
            tomlkit.parse(text)
        except (TOMLKitError, ValueError, AttributeError) as error:
            reason = "[permissions] is not a table of rules" if isinstance(error, AttributeError) else error
            raise UserError(f"{path}: {reason}", hint="correct the file, then try again") from error
        fresh = path.with_name(f".{path.name}.new")
        fresh.unlink(missing_ok=True)
        with _create(fresh, os.O_WRONLY | os.O_EXCL) as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)


def _create(path: Path, flags: int) -> TextIO:
    """A file next to the user's own, readable by them alone; a symbolic link in its place is not followed."""
    try:
        return os.fdopen(os.open(path, flags | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600), "w")
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}", hint="remove it, then try again") from error
