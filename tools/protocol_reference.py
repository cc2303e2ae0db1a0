"""The tables of the protocol's reference, generated from the types: `python -m tools.protocol_reference [FILE]`.

Invariants: only the lines between `<!-- table … -->` and `<!-- end -->` are written; rendering twice changes nothing.
"""

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
from msgspec import inspect

from buddy.protocol.events import EVENTS
from buddy.protocol.request_table import REQUESTS
from buddy.protocol.shapes import Shape

_BLOCK = re.compile(r"(<!-- table (request|response|event|object) (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


_ID_PATTERN = re.compile(r"\^(\w+_)")


def render(text: str) -> str:
    """The document with every table as the types say it now."""
    known = shapes()

    def fill(block: re.Match[str]) -> str:
        shape = known[block[2]].get(block[3])
        if shape is None:
            raise SystemExit(f"error: no {block[2]} {block[3]}")
        return f"{block[1]}{table_of(shape)}{block[4]}"

    return _BLOCK.sub(fill, text)


def tables_in(text: str) -> list[tuple[str, str]]:
    """Which tables the document has: kind and name, in its order."""
    return [(block[2], block[3]) for block in _BLOCK.finditer(text)]


def shapes() -> dict[str, dict[str, type[Shape]]]:
    """All that has a table, by kind and name; what is empty needs none."""
    requests = {kind: row.payload for kind, row in REQUESTS.items()}
    responses = {kind: row.reply for kind, row in REQUESTS.items()}
    tops = {*EVENTS.values(), *requests.values(), *responses.values()}
    found: dict[str, type[Shape]] = {}
    for top in tops:
        _collect(top, found)
    nested = {name: shape for name, shape in sorted(found.items()) if shape not in tops}
    known = {"request": requests, "response": responses, "event": dict[str, type[Shape]](EVENTS), "object": nested}
    return {kind: {n: s for n, s in named.items() if _fields(s)} for kind, named in known.items()}


def table_of(shape: type[Shape]) -> str:
    """One row per field, in the order of the wire."""
    rows = [f"| `{field.encode_name}` | {_kind(field)} | {_presence(field)} |\n" for field in _fields(shape)]
    return "| field | type | |\n|---|---|---|\n" + "".join(rows)


def _fields(shape: type[Shape]) -> list[inspect.Field]:
    found = inspect.type_info(shape)
    fields = list(found.fields) if isinstance(found, inspect.StructType) else []
    # Every event can have `blobs`; the document explains it once.
    return [field for field in fields if field.encode_name != "blobs"]


def _kind(field: inspect.Field) -> str:
    # An optional field may be null as well as missing; the document says so once.
    return _name(field.type) if field.required else _name(field.type).removesuffix(" or null")


def _presence(field: inspect.Field) -> str:
    if field.required:
        return "required"
    if field.default in (None, False, (), msgspec.NODEFAULT):
        return "optional"
    return f"optional, `{msgspec.json.encode(field.default).decode()}`"


def _collect(shape: type[Shape], found: dict[str, type[Shape]]) -> None:
    for field in _fields(shape):
        for inner in structs_in(field.type):
            if inner.__name__ not in found:
                found[inner.__name__] = inner
                _collect(inner, found)


def structs_in(kind: inspect.Type) -> Iterator[type[Shape]]:
    """The objects that a value of this type may hold."""
    match kind:
        case inspect.StructType() if issubclass(kind.cls, Shape):
            yield kind.cls
        case inspect.UnionType():
            for part in kind.types:
                yield from structs_in(part)
        case inspect.VarTupleType():
            yield from structs_in(kind.item_type)
        case _:
            pass


def _name(kind: inspect.Type) -> str:
    if isinstance(kind, inspect.Metadata):
        return _name_in_schema(kind)
    for shape, name in _NAMES.items():
        if isinstance(kind, shape):
            return name(kind)
    return "any JSON value"


def _name_in_schema(kind: inspect.Metadata) -> str:
    """A type of which the schema says more than what is validated."""
    more = msgspec.to_builtins(kind.extra_json_schema)  # pyright: ignore[reportUnknownMemberType] - untyped there
    prefix = _ID_PATTERN.match(more.get("pattern", ""))
    return f"string, `{prefix[1]}…`" if prefix else _name(kind.type)


def _literal(kind: inspect.Type) -> str:
    values = kind.values if isinstance(kind, inspect.LiteralType) else ()
    return ", ".join(f"`{value}`" for value in values)


def _text(kind: inspect.Type) -> str:
    if not isinstance(kind, inspect.StrType):
        return "string"
    prefix = _ID_PATTERN.match(kind.pattern or "")
    return f"string, `{prefix[1]}…`" if prefix else "string, not empty" if kind.min_length else "string"


def _number(kind: inspect.Type) -> str:
    word = "integer" if isinstance(kind, inspect.IntType) else "number"
    if not isinstance(kind, inspect.IntType | inspect.FloatType):
        return word
    bounds = (("≥", kind.ge), (">", kind.gt), ("≤", kind.le))
    return " ".join([word, *(f"{sign} {bound:g}" for sign, bound in bounds if bound is not None)])


def _union(kind: inspect.Type) -> str:
    parts = kind.types if isinstance(kind, inspect.UnionType) else ()
    return " or ".join(_name(part) for part in sorted(parts, key=lambda part: isinstance(part, inspect.NoneType)))


def _list(kind: inspect.Type) -> str:
    return f"list of {_name(kind.item_type)}" if isinstance(kind, inspect.VarTupleType) else "list"


def _map(kind: inspect.Type) -> str:
    is_open = not isinstance(kind, inspect.DictType) or isinstance(kind.value_type, inspect.AnyType)
    return "object" if is_open else "object of strings"


def _struct(kind: inspect.Type) -> str:
    name = kind.cls.__name__ if isinstance(kind, inspect.StructType) else ""
    return f"[{name}](#{name.lower()})"


_NAMES: dict[type[inspect.Type], Callable[[inspect.Type], str]] = {
    inspect.LiteralType: _literal,
    inspect.StrType: _text,
    inspect.IntType: _number,
    inspect.FloatType: _number,
    inspect.BoolType: lambda _: "boolean",
    inspect.NoneType: lambda _: "null",
    inspect.UnionType: _union,
    inspect.VarTupleType: _list,
    inspect.DictType: _map,
    inspect.StructType: _struct,
    inspect.RawType: lambda _: "event envelope",
}


if __name__ == "__main__":
    path = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/protocol.md")
    path.write_text(render(path.read_text(encoding="utf-8")), encoding="utf-8")
