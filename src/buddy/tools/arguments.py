"""A tool's arguments: their JSON Schema for the model, and reading what the model wrote.

Invariants: nothing is coerced, except that null for an optional argument means it is absent; anything wrong becomes a
`ToolError` that names the argument and what is expected.
"""

import re
from functools import cache
from typing import Any, cast

import msgspec
from msgspec import Struct

from buddy.errors import ToolError
from buddy.long_json import LONG, decode
from buddy.steps import Steps


@cache
def schema_of(args: type[Struct]) -> dict[str, Any]:
    """The JSON Schema of the arguments, without references and closed to unknown ones."""
    (root,), definitions = msgspec.json.schema_components([args], ref_template="{name}")
    return _inline(root, definitions)


def parse(name: str, args: type[Struct], text: str) -> Struct:
    """Read the arguments of a call to the tool `name`; no text at all means no arguments."""
    try:
        if args.__struct_config__.forbid_unknown_fields:
            return _decoder(args).decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        pass  # examined below: something is wrong, or it is only a null
    return _convert(name, args, read_object(name, text))


def parse_long(name: str, args: type[Struct], text: str) -> Steps[Struct]:
    """The same in steps, for arguments of any length."""
    if len(text) <= LONG:
        return parse(name, args, text)
    return _convert(name, args, (yield from read_long_object(name, text)))


def read_long_object(name: str, text: str) -> Steps[dict[str, object]]:
    """The arguments as an object, in steps."""
    if len(text) <= LONG:
        return read_object(name, text)
    try:
        given: object = yield from decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError) as error:
        raise _unreadable(name, error) from error
    return _check_object(name, given)


@cache
def _decoder(args: type[Struct]) -> "msgspec.json.Decoder[Struct]":
    return msgspec.json.Decoder(args)


def _inline(part: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    if "$ref" in part:
        part = {**definitions[part["$ref"]], **{key: value for key, value in part.items() if key != "$ref"}}
    plain = {key: _inline_value(key, value, definitions) for key, value in part.items() if key != "title"}
    return {**plain, "additionalProperties": False} if "properties" in plain else plain


def _inline_value(key: str, value: Any, definitions: dict[str, Any]) -> Any:
    if key == "properties":
        return {name: _inline(field, definitions) for name, field in value.items()}
    if key in ("anyOf", "prefixItems"):
        return [_inline(choice, definitions) for choice in value]
    if key in ("items", "additionalProperties") and isinstance(value, dict):
        return _inline(msgspec.convert(value, dict[str, Any]), definitions)
    return value


def read_object(name: str, text: str) -> dict[str, object]:
    try:
        given: object = msgspec.json.decode(text) if text.strip() else {}
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError) as error:
        raise _unreadable(name, error) from error
    return _check_object(name, given)


def _unreadable(name: str, error: Exception) -> ToolError:
    return ToolError(f"{name}: the arguments are not valid JSON ({error}); send one JSON object")


def _check_object(name: str, given: object) -> dict[str, object]:
    if not isinstance(given, dict):
        raise ToolError(f"{name}: the arguments must be one JSON object, got {_kind(given)}")
    return cast("dict[str, object]", given)


def _convert(name: str, args: type[Struct], given: dict[str, object]) -> Struct:
    given = _drop_nulls(given, args)
    _check_names(name, args, given)
    try:
        return msgspec.convert(given, args, strict=True)
    except msgspec.ValidationError as error:
        raise ToolError(f"{name}: {_reword(str(error))}") from error


def _drop_nulls(given: dict[str, object], args: type[Struct]) -> dict[str, object]:
    optional = {field.encode_name for field in msgspec.structs.fields(args) if not field.required}
    return {name: value for name, value in given.items() if value is not None or name not in optional}


def _check_names(name: str, args: type[Struct], given: dict[str, object]) -> None:
    fields = msgspec.structs.fields(args)
    known = [field.encode_name for field in fields]
    for unknown in given.keys() - known:
        import difflib

        near = difflib.get_close_matches(unknown[:80], known, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        takes = ", ".join(known) or "no arguments"
        raise ToolError(f"{name}: unknown argument {unknown[:80]!r}; {hint}it takes {takes}")
    missing = [field.encode_name for field in fields if field.required and field.encode_name not in given]
    if missing:
        raise ToolError(f"{name}: missing {', '.join(missing)}")


def _reword(message: str) -> str:
    """From "Expected `int`, got `str` - at `$.count`" to "count: expected int, got str"."""
    problem, _, where = message.replace("`", "").partition(" - at $")
    place = re.sub(r"^\.", "", where)
    problem = problem[:1].lower() + problem[1:]
    return f"{place}: {problem}" if place else problem


def _kind(value: object) -> str:
    match value:
        case None:
            return "null"
        case list():
            return "an array"
        case str():
            return "a string"
        case _:
            return "a number or boolean"
