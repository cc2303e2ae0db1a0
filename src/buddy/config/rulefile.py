"""The rules a person keeps, in their own `buddy.toml`: added and removed without touching anything else in it.

What always holds: the file is read again before it is written, checked before it replaces the old one, and replaced
whole; comments and order stay as they were.
"""

import fcntl
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from buddy.errors import UserError

# A TOML document that keeps its comments: the library gives its nodes no useful types.
Document = Any


def add_rule(path: Path, rule: Mapping[str, Any]) -> None:
    """Add a `[[permissions.rules]]`; a file that does not exist yet is made."""
    import tomlkit

    def change(document: Document) -> None:
        rules = document.setdefault("permissions", tomlkit.table()).setdefault("rules", tomlkit.aot())
        table = tomlkit.table()
        for key, value in rule.items():
            table[key] = value
        rules.append(table)

    _change(path, change)


def remove_rules(path: Path, is_gone: Callable[[Mapping[str, Any]], bool]) -> int:
    """Remove the rules for which this is true; give how many."""
    removed = 0

    def change(document: Document) -> None:
        nonlocal removed
        rules = document.get("permissions", {}).get("rules", [])
        for index in reversed(range(len(rules))):
            if is_gone(rules[index].unwrap()):
                del rules[index]
                removed += 1

    if path.exists():
        _change(path, change)
    return removed


def _change(path: Path, change: Callable[[Document], None]) -> None:
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with path.with_name(f".{path.name}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            document = tomlkit.parse(path.read_text() if path.exists() else "")
            change(document)
            text = tomlkit.dumps(document)
            tomlkit.parse(text)
        except TOMLKitError as error:
            raise UserError(f"{path}: {error}", hint="mend the file, then try again") from error
        fresh = path.with_name(f".{path.name}.new")
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
