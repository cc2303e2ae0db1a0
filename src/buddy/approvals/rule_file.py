"""The rules in a person's own `buddy.toml`: added and removed without touching anything else in it.

Invariants: the file is read again before it is written, checked before it replaces the old one, and replaced in one
step; comments and order are preserved.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from buddy.errors import UserError
from buddy.shared_files import locked, replace_content

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
    path = path.resolve()  # keep a symbolic link to a file elsewhere
    try:
        with locked(path):
            replace_content(path, _changed(path, change).encode())
    except OSError as error:
        hint = "check this file and its permissions, then try again"
        raise UserError(f"{error.filename or path}: {error.strerror}", hint=hint) from error


def _changed(path: Path, change: Callable[[Document], None]) -> str:
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    try:
        document = tomlkit.parse(path.read_text() if path.exists() else "")
        change(document)
        text = tomlkit.dumps(document)
        tomlkit.parse(text)
    except (TOMLKitError, ValueError, AttributeError) as error:
        reason = "[permissions] is not a table of rules" if isinstance(error, AttributeError) else error
        raise UserError(f"{path}: {reason}", hint="correct the file, then try again") from error
    return text
