"""Front matter as people write it in Markdown files: `key: value` lines between two lines of `---`.

A subset of YAML, read without a parser: plain and quoted values, lists in either form, indented continuation lines and
block scalars. Colons inside a value are part of it, because authors rarely quote them.
"""

import re

from msgspec import Struct

_KEY = re.compile(r"([A-Za-z][\w-]*)\s*:(?:\s+(.*)|\s*)")
_BLOCK = re.compile(r"[|>][+-]?\d?")
_QUOTED = re.compile(r"""(["'])(.*)\1""", re.DOTALL)
_LIMIT = re.compile(r"[,\s]+(?![^(]*\))")


class Document(Struct, frozen=True):
    """The values by lower-case key, and the text below; `problem` says why there are no values."""

    values: dict[str, str] = {}
    text: str = ""
    problem: str = ""


def read_front_matter(content: str) -> Document:
    lines = content.removeprefix("\ufeff").splitlines()
    if not lines or lines[0].rstrip() != "---":
        return Document(text=content, problem="it does not start with front matter (a line of ---)")
    end = next((at for at, line in enumerate(lines[1:], 1) if line.rstrip() in ("---", "...")), None)
    if end is None:
        return Document(text=content, problem="its front matter has no end (a second line of ---)")
    text = "\n".join(lines[end + 1 :]).strip()
    try:
        return Document(_values(lines[1:end]), text)
    except ValueError as error:
        return Document(text=text, problem=str(error))


def words_of(value: str) -> tuple[str, ...]:
    """The items of a list: separated by commas, spaces or lines; what is in parentheses belongs to its word."""
    return tuple(word for part in _LIMIT.split(value.strip().strip("[]")) if (word := _unquote(part.strip("- "))))


def _values(lines: list[str]) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    key = ""
    for number, line in enumerate(lines, 2):
        if not line.strip() or line.lstrip().startswith("#"):
            if key and not line.strip():
                found[key].append("")
            continue
        named = _KEY.fullmatch(line.rstrip()) if line == line.lstrip() and not line.startswith("-") else None
        if named is not None:
            key = named[1].lower()
            found[key] = [named[2] or ""]
        elif key and (line != line.lstrip() or line.startswith("-")):
            found[key].append(line.strip())
        else:
            raise ValueError(f"line {number} of its front matter is not `key: value`: {line.strip()[:60]!r}")
    return {key: _join(parts) for key, parts in found.items()}


def _join(parts: list[str]) -> str:
    first, rest = parts[0].strip(), [part for part in parts[1:] if part]
    if _BLOCK.fullmatch(first):
        return ("\n" if first.startswith("|") else " ").join(rest)
    separator = "\n" if rest and rest[0].startswith("- ") else " "
    return _unquote(separator.join([first, *rest]).strip())


def _unquote(value: str) -> str:
    quoted = _QUOTED.fullmatch(value)
    return quoted[2] if quoted else value
