"""The forms of questions: flat JSON schemas, answers to them, and how a person types one.

Invariants: an answer that was checked has every required field, nothing unknown, and values of the right type; a field
that was left out has its default. Plain data only: the command line uses it before anything else is loaded.
"""

import json
import re
from typing import Any

Schema = dict[str, Any]
Answer = dict[str, Any]

_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "number": (int, float),
    "integer": (int,),
    "boolean": (bool,),
    "array": (list,),
}
_YES, _NO = ("true", "yes", "y", "on", "1"), ("false", "no", "n", "off", "0")
_PAIR = re.compile(r"([A-Za-z_][\w.-]*)=(\"(?:[^\"\\]|\\.)*\"|\S*)\s*")


def fields_of(schema: Schema | None) -> dict[str, Schema]:
    """The fields by name; anything that is not a field is left out."""
    properties = (schema or {}).get("properties")
    if not isinstance(properties, dict):
        return {}
    named: dict[Any, Any] = properties  # pyright: ignore[reportUnknownVariableType] - from a server
    return {str(name): field for name, field in named.items() if isinstance(field, dict)}


def required_of(schema: Schema | None) -> list[str]:
    found = (schema or {}).get("required")
    names: list[Any] = list(found) if isinstance(found, list) else []  # pyright: ignore[reportUnknownArgumentType] - from a server
    return [str(name) for name in names]


def check_answer(schema: Schema | None, answer: object) -> Answer:
    """The answer with its defaults filled in; ValueError says which field is wrong."""
    if not isinstance(answer, dict):
        raise ValueError("the answer must be an object with the form's fields")  # noqa: TRY004 - one kind of error
    given: Answer = {str(name): value for name, value in dict(answer).items()}  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType] - from a client
    fields = fields_of(schema)
    for name in given:
        if name not in fields:
            raise ValueError(f"unknown field {name[:80]!r}. Available: {', '.join(fields) or 'none'}")
    filled = {name: field["default"] for name, field in fields.items() if name not in given and "default" in field}
    complete = {**filled, **given}
    for name in required_of(schema):
        if name not in complete:
            raise ValueError(f"{name} is missing")
    for name, value in complete.items():
        if problem := _problem(fields[name], value):
            raise ValueError(f"{name} {problem}")
    return complete


def read_answer(schema: Schema | None, text: str) -> Answer:
    """What a person typed: a JSON object, `name=value` pairs, or the value of the only field."""
    text, fields = text.strip(), fields_of(schema)
    if text.startswith("{"):
        try:
            return check_answer(schema, json.loads(text))
        except json.JSONDecodeError as error:
            raise ValueError(f"not a JSON object: {error}") from error
    pairs = _pairs(text, fields)
    if pairs is None and len(fields) == 1 and text:
        pairs = dict.fromkeys(fields, text)
    if pairs is None and text:
        raise ValueError(f"write {' '.join(f'{name}=…' for name in fields)}, or a JSON object")
    return check_answer(schema, {name: _value(fields[name], typed) for name, typed in (pairs or {}).items()})


def describe_field(name: str, field: Schema, *, required: bool) -> str:
    """A field in words: `size (number, 1 to 10; default 3): how many`."""
    facts = [" or ".join(map(str, choices)) if (choices := choices_of(field)) else str(field.get("type", "string"))]
    low, high = field.get("minimum"), field.get("maximum")
    if low is not None or high is not None:
        facts.append(f"{'' if low is None else low} to {'' if high is None else high}".strip())
    if "format" in field:
        facts.append(str(field["format"]))
    if "default" in field:
        facts.append(f"default {json.dumps(field['default'], ensure_ascii=False)}")
    elif not required:
        facts.append("optional")
    about = field.get("description") or field.get("title") or ""
    return f"{name} ({', '.join(facts)}){f': {about}' if about else ''}"


def choices_of(field: Schema) -> list[Any]:
    """The values of which one is chosen, or for a list, any."""
    items: Any = field.get("items") if field.get("type") == "array" else field
    if not isinstance(items, dict):
        return []
    inner: Schema = dict(items)  # pyright: ignore[reportUnknownArgumentType] - from a server
    if isinstance(inner.get("enum"), list):
        return list(inner["enum"])
    titled = inner.get("oneOf") or inner.get("anyOf")
    entries: list[Any] = list(titled) if isinstance(titled, list) else []  # pyright: ignore[reportUnknownArgumentType] - from a server
    return [entry["const"] for entry in entries if isinstance(entry, dict) and "const" in entry]


def _problem(field: Schema, value: object) -> str:
    kind = str(field.get("type", "string"))
    expected = _TYPES.get(kind, (str,))
    if not isinstance(value, expected) or (isinstance(value, bool) and kind != "boolean"):
        return f"must be of type {kind}"
    choices = choices_of(field)
    if isinstance(value, list):
        items: list[object] = list(value)  # pyright: ignore[reportUnknownArgumentType] - checked below
        return "" if not choices or all(item in choices for item in items) else f"must be some of {choices}"
    if choices and value not in choices:
        return f"must be one of {', '.join(map(str, choices))}"
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return _out_of(field, value, "minimum", "maximum", "")
    if isinstance(value, str):
        return _out_of(field, len(value), "minLength", "maxLength", " characters")
    return ""


def _out_of(field: Schema, size: float, least: str, most: str, unit: str) -> str:
    low, high = field.get(least), field.get(most)
    if isinstance(low, (int, float)) and size < low:
        return f"must be at least {low}{unit}"
    return f"must be at most {high}{unit}" if isinstance(high, (int, float)) and size > high else ""


def _pairs(text: str, fields: dict[str, Schema]) -> dict[str, str] | None:
    found: dict[str, str] = {}
    at = 0
    while at < len(text):
        pair = _PAIR.match(text, at)
        if pair is None or pair[1] not in fields:
            return None
        found[pair[1]] = str(json.loads(pair[2])) if pair[2].startswith('"') and pair[2].endswith('"') else pair[2]
        at = pair.end()
    return found or None


def _value(field: Schema, typed: str) -> object:
    """A typed value in the field's type; what does not fit is left for the check to refuse."""
    kind = str(field.get("type", "string"))
    word = typed.strip().lower()
    if kind == "boolean":
        return True if word in _YES else False if word in _NO else typed
    if kind == "array":
        return [part.strip() for part in typed.split(",") if part.strip()]
    if kind in ("number", "integer"):
        try:
            return int(word) if kind == "integer" or word.lstrip("-").isdecimal() else float(word)
        except ValueError:
            return typed
    return typed
