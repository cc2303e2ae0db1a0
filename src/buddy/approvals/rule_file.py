"""The rules in a person's own `buddy.toml`: added and removed without touching anything else in it.

Invariants: comments and order are preserved.
"""

import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

# A TOML document with its comments; the library has no useful types for its nodes.
Document = Any
_RULES = "[[permissions.rules]]"
# Lines that begin a table; some lines of an array look like one, and then the rules are not thought to be at the end.
_HEADER = re.compile(r"^[ \t]*(\[[^\n#]*\])[ \t]*(?:#.*)?$", re.MULTILINE)


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

    _change(path, change, lambda text: _append(text, rule, is_replaced))


def _append(text: str, rule: Mapping[str, Any], is_replaced: Callable[[Mapping[str, Any]], bool]) -> str | None:
    """The text with one more rule at its end; None if that is not where the rules are, or if one is replaced."""
    import tomlkit

    headers = _HEADER.findall(text)
    if _RULES not in headers or any(header != _RULES for header in headers[headers.index(_RULES) :]):
        return None
    try:
        before = tomllib.loads(text)
        changed = f"{text.rstrip()}\n\n{tomlkit.dumps({'permissions': {'rules': [dict(rule)]}})}"
        after = tomllib.loads(changed)
    except tomllib.TOMLDecodeError:
        return None
    rules = before["permissions"]["rules"]
    if any(map(is_replaced, rules)):
        return None
    rules.append(dict(rule))
    return changed if after == before else None


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


def _change(
    path: Path, change: Callable[[Document], None], change_text: Callable[[str], str | None] = lambda _: None
) -> None:
    from buddy.config.edit import change_file

    change_file(path, change, "[permissions] is not a table of rules", change_text)
