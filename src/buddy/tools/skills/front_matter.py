"""The head of a Markdown file: `key: value` lines between two lines of three hyphens.

Invariants: it reads what people write, not all of YAML: quoted values, indented continuations and block scalars; a
line that it cannot read is skipped, and the rest still counts.
"""

import re

_KEY = re.compile(r"([A-Za-z_][\w-]*)\s*:(?:\s+(.*)|\s*)")
_BLOCK = re.compile(r"[|>][+-]?\d*\s*(#.*)?")


def split_front_matter(text: str) -> tuple[dict[str, str], str]:
    """The fields of the head, and the body after it; without a head, no fields."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    lines = text.split("\n")
    if not lines or lines[0].rstrip() != "---":
        return {}, text.strip()
    end = next((at for at, line in enumerate(lines[1:], 1) if line.rstrip() in ("---", "...")), None)
    if end is None:
        return {}, text.strip()
    return _fields(lines[1:end]), "\n".join(lines[end + 1 :]).strip()


def is_true(value: str | None) -> bool:
    return (value or "").strip().lower() in ("true", "yes", "on")


def _fields(lines: list[str]) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    key = ""
    for line in lines:
        match = _KEY.fullmatch(line.rstrip())
        if match:
            key = match[1].lower()
            value = (match[2] or "").strip()
            found[key] = [] if _BLOCK.fullmatch(value) else [value]
        elif key and (not line.strip() or line[0] in " \t-"):  # a hyphen: an item of a list
            found[key].append(line.strip())
    return {name: _unquote(" ".join(part for part in parts if part)) for name, parts in found.items()}


def _unquote(value: str) -> str:
    for quote in ('"', "'"):
        if len(value) > 1 and value[0] == value[-1] == quote:
            inner = value[1:-1]
            return inner.replace('\\"', '"').replace("\\\\", "\\") if quote == '"' else inner.replace("''", "'")
    return value
