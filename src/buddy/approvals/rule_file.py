"""The rules in a person's own `buddy.toml`: added and removed without touching anything else in it.

Invariants: comments and order are preserved.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

# A TOML document with its comments; the library has no useful types for its nodes.
Document = Any


def add_rule(
    path: Path, rule: Mapping[str, Any], is_replaced: Callable[[Mapping[str, Any]], bool] = lambda _: False
) -> None:
    """Add a `[[permissions.rules]]` in place of those that it replaces; create the file if it does not exist."""
    import tomlkit

    def change(document: Document) -> None:
        rules = document.setdefault("permissions", tomlkit.table()).setdefault("rules", tomlkit.aot())
        table = tomlkit.inline_table() if _is_inline(rules) else tomlkit.table()
        for key, value in rule.items():
            table[key] = value
        rules.append(table)
        _remove(document, is_replaced)

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
        removed = _remove(document, should_remove)

    if path.exists():
        _change(path, change)
    return removed


def _remove(document: Document, should_remove: Callable[[Mapping[str, Any]], bool]) -> int:
    rules = document.get("permissions", {}).get("rules", [])
    unwanted = [index for index in range(len(rules)) if should_remove(rules[index].unwrap())]
    for index in reversed(unwanted):
        del rules[index]
    return len(unwanted)


def _change(path: Path, change: "Callable[[Document], None]") -> None:
    from buddy.config.edit import change_file

    change_file(path, change, "[permissions] is not a table of rules")
