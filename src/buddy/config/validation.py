"""From a validation error of a settings table to words: what is wrong, in which file and line, and what is valid.

Invariants: every table of every file is explained here; a message names the key and never a type of the program.
"""

import difflib
import re
import tomllib
from pathlib import Path
from types import UnionType
from typing import Annotated, Literal, Union, cast, get_args, get_origin, get_type_hints

from msgspec import Struct

from buddy.config.lines import line_in_item, line_of
from buddy.errors import UserError

_PLACE = re.compile(r" - at `\$([^`]*)`$")
_UNKNOWN = re.compile(r"unknown field `([^`]*)`")
_MISSING = re.compile(r"missing required field `([^`]*)`")
_TYPES = re.compile(r"Expected `([^`]*)`, got `([^`]*)`")
_BOUND = re.compile(r"Expected `([^`]*)` (>=|<=|>|<) (\S+)")
_ENUM = re.compile(r"Invalid enum value (.*)")
_INDEX = re.compile(r"\[(\d+)\]")

_NOUNS = {
    "int": "a whole number",
    "float": "a number",
    "str": "text in quotes",
    "bool": "true or false",
    "array": "a list",
    "object": "a table",
    "null": "nothing",
}
_NOT_WHOLE = " must be a whole number, not a number"
_BOUNDS = {">=": "of at least", "<=": "of at most", ">": "above", "<": "below"}


class Origin(Struct, frozen=True):
    """Where a table comes from; without a text, errors name no line."""

    source: str = ""
    text: str = ""

    def error(
        self, path: tuple[str, ...], message: str, hint: str = "", *, item: tuple[tuple[str, ...], int] | None = None
    ) -> UserError:
        """An error about a key or a table; `item` is the array of tables and the item that it is in."""
        line = line_in_item(self.text, *item, path) if item else line_of(self.text, path)
        place = f"{self.source}:{line}: " if line else f"{self.source}: " if self.source else ""
        return UserError(f"{place}{message}", hint=hint)


def origin_of(source: str) -> Origin:
    """The file of a configuration that was read before; it may have changed or be gone."""
    try:
        return Origin(source, Path(source).read_text(encoding="utf-8") if source else "")
    except (OSError, UnicodeDecodeError):
        return Origin(source)


def explain(origin: Origin, path: tuple[str, ...], error: Exception, shape: type[Struct]) -> UserError:
    """Explain why the table at `path` (or an item of it, if it is an array) is not of this shape."""
    message = str(error)
    place = _PLACE.search(message)
    where, what = (place[1], message[: place.start()]) if place else ("", message)
    item = (path, int(index[1])) if (index := _INDEX.match(where)) else None
    key = _INDEX.sub("", where).lstrip(".")
    table = f"[[{'.'.join(path)}]]" if item is not None else f"[{'.'.join(path)}]"
    fields = shape.__struct_fields__
    if unknown := _UNKNOWN.search(what):
        near = difflib.get_close_matches(unknown[1], fields, n=1, cutoff=0.5)
        meant = f". Did you mean {near[0]!r}?" if near else ""
        text = f"unknown key {unknown[1]!r} in {table}{meant}"
        return origin.error((*path, unknown[1]), text, f"available: {', '.join(fields)}", item=item)
    if missing := _MISSING.search(what):
        return origin.error(path, f"{missing[1]} is missing in {table}", _takes(shape, missing[1]), item=item)
    if not key:
        return origin.error(path, f"{table}: {_lower(what)}", item=item)
    name = key.partition(".")[0]
    plain = _plain(what)
    if plain == _NOT_WHOLE:
        plain = f" must be a whole number, not {_fraction_at(origin, path, int(index[1]) if index else None, key)}"
    return origin.error((*path, name), f"{name} in {table}{plain}", _takes(shape, name), item=item)


def _fraction_at(origin: Origin, path: tuple[str, ...], item: int | None, key: str) -> str:
    """The number that should be a whole one, which "a number" would not tell apart."""
    try:
        found: object = tomllib.loads(origin.text)
    except tomllib.TOMLDecodeError:
        return "a fraction"
    for step in (*path, *([] if item is None else [item]), *key.split(".")):
        match found, step:
            case dict(), str():
                found = cast("dict[str, object]", found).get(step)
            case list(), int():
                found = cast("list[object]", found)[step]
            case _:
                return "a fraction"
    return repr(found) if isinstance(found, float) else "a fraction"


def unknown_table(origin: Origin, name: str, valid: tuple[str, ...]) -> UserError:
    near = difflib.get_close_matches(name, valid, n=1, cutoff=0.5)
    meant = f". Did you mean {near[0]!r}?" if near else ""
    return origin.error((name,), f"unknown table {name!r}{meant}", f"available: {', '.join(valid)}")


def not_a_url(origin: Origin, profile: str, table: object, url: str) -> UserError:
    """A server without a scheme; the address is repeated unless it could contain a password."""
    key = "base_url" if isinstance(table, dict) and "base_url" in table else "api_base_url"
    is_shown = "@" not in url and url.isprintable() and "://" not in url
    shown = f", not {url[:80]!r}" if is_shown else ""
    hint = f'{key} = "http://{url[:80]}"' if is_shown else f'{key} = "https://HOST/v1"'
    message = f"{key} in [models.{profile}] must start with http:// or https://{shown}"
    return origin.error(("models", profile, key), message, f"write {hint}")


def _plain(what: str) -> str:
    if types := _TYPES.search(what):
        return f" must be {_noun(types[1])}, not {_noun(types[2])}"
    if bound := _BOUND.search(what):
        return f" must be {_noun(bound[1])} {_BOUNDS[bound[2]]} {bound[3].removesuffix('.0')}"
    if enum := _ENUM.search(what):
        return f" cannot be {enum[1]}"
    return f": {_lower(what)}"


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


def _noun(kind: str) -> str:
    named = [_NOUNS.get(part.strip(), part.strip()) for part in kind.split("|") if part.strip() != "null"]
    return " or ".join(named) or "nothing"


def _takes(shape: type[Struct], key: str) -> str:
    """What a key takes, in words."""
    values, nouns = _accepted(get_type_hints(shape).get(key))
    if values:
        return f"available: {', '.join(values)}"
    return f"{key} takes {' or '.join(nouns)}" if nouns else ""


def _accepted(hint: object) -> tuple[list[str], list[str]]:
    """The values and the kinds of values that a type accepts."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return [str(value) for value in arguments], []
    if origin is Annotated:
        return _accepted(arguments[0])
    if origin in (Union, UnionType):
        found = [_accepted(part) for part in arguments]
        return [value for values, _ in found for value in values], [noun for _, nouns in found for noun in nouns]
    if origin in (tuple, list):
        return [], ["a list"]
    name = getattr(hint, "__name__", "")
    return [], [_NOUNS[name]] if name in ("int", "float", "str", "bool") else []
