"""The events as plain JSON, for the type checker, generated from the types: `python -m tools.json_events [FILE]`.

Invariants: the file is a pure function of the types and is checked in; a field that may be left out on the wire is
`NotRequired`.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from msgspec import inspect

from buddy.protocol.events import EVENTS
from buddy.protocol.shapes import Shape
from tools.protocol_reference import structs_in

HEAD = '''\
"""The events as plain JSON, for the type checker. Written by `make schema`; do not edit it.

Import it under `TYPE_CHECKING`: a client that works on plain JSON starts without the protocol's types.
"""

from typing import Any, Generic, Literal, NotRequired, TypedDict, TypeVar


class Payload(TypedDict):
    """`blobs` names the strings that were too long for a frame: field path → blob id."""

    blobs: NotRequired[dict[str, str] | None]


Kind = TypeVar("Kind", bound=str)
Content = TypeVar("Content", bound=Payload)


class _Envelope(TypedDict):
    v: str
    kind: Literal["event"]
    sessionId: str
    seq: int
    ts: int


class Event(_Envelope, Generic[Kind, Content]):
    type: Kind
    runId: NotRequired[str]
    payload: Content


class RunEvent(_Envelope, Generic[Kind, Content]):
    """An event that always belongs to a run."""

    type: Kind
    runId: str
    payload: Content
'''


def render() -> str:
    """The text of the file."""
    shapes = dict.fromkeys(shape for body in EVENTS.values() for shape in _needed_for(body))
    return "".join((HEAD, *map(_typed_dict, shapes), _union()))


def _needed_for(shape: type[Shape]) -> Iterator[type[Shape]]:
    """A shape, after those that it refers to."""
    for field in _fields(shape):
        for inner in structs_in(field.type):
            yield from _needed_for(inner)
    yield shape


def _fields(shape: type[Shape]) -> tuple[inspect.Field, ...]:
    info = inspect.type_info(shape)
    return info.fields if isinstance(info, inspect.StructType) else ()


def _typed_dict(shape: type[Shape]) -> str:
    fields = {field.encode_name: _field(field) for field in _fields(shape)}
    base = "Payload" if fields.pop("blobs", None) else "TypedDict"
    lines = "".join(f"    {name}: {kind}\n" for name, kind in fields.items())
    return f"\n\nclass {shape.__name__}({base}):\n{lines}"


def _field(field: inspect.Field) -> str:
    return _name(field.type) if field.required else f"NotRequired[{_name(field.type)}]"


def _name(kind: inspect.Type) -> str:
    match kind:
        case inspect.Metadata():
            return _name(kind.type)
        case inspect.LiteralType():
            return f"Literal[{', '.join(_quoted(kind))}]"
        case inspect.UnionType():
            return " | ".join(_name(part) for part in kind.types)
        case inspect.VarTupleType():
            return f"list[{_name(kind.item_type)}]"
        case inspect.DictType():
            return f"dict[{_name(kind.key_type)}, {_name(kind.value_type)}]"
        case inspect.StructType():
            return kind.cls.__name__
        case _:
            return _PLAIN[type(kind)]


def _quoted(kind: inspect.LiteralType) -> Iterator[str]:
    for value in kind.values:
        yield f'"{value}"'


def _union() -> str:
    names = "\n    | ".join(
        f'{"RunEvent" if body.facts.of_run else "Event"}[Literal["{name}"], {body.__name__}]'
        for name, body in EVENTS.items()
    )
    return f"\n\nJsonEvent = (\n    {names}\n)\n"


_PLAIN: dict[type[inspect.Type], str] = {
    inspect.AnyType: "Any",
    inspect.BoolType: "bool",
    inspect.FloatType: "float",
    inspect.IntType: "int",
    inspect.NoneType: "None",
    inspect.StrType: "str",
}


if __name__ == "__main__":
    path = Path(sys.argv[1] if len(sys.argv) > 1 else "src/buddy/protocol/json_events.py")
    path.write_text(render(), encoding="utf-8")
