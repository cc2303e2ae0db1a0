"""Which fields of a struct can hold a text from outside: those whose type is neither a number nor a fixed choice.

What always holds: a field that is left out can only be a number, a flag, one of the values that its type lists, or
a struct of nothing but such fields.
"""

from collections.abc import Callable
from functools import cache
from operator import attrgetter
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from msgspec import Struct
from msgspec.structs import fields

Opening = tuple[str, Callable[[Any], object]]  # a field's name on the wire, and how to get its value

_CLOSED = (int, float, bool, NoneType)


@cache
def openings(shape: type[Struct]) -> tuple[Opening, ...]:
    return tuple((field.encode_name, attrgetter(field.name)) for field in fields(shape) if _is_open(field.type))


def _is_open(kind: Any) -> bool:
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        return any(map(_is_open, get_args(kind)))
    if origin is Annotated:
        return _is_open(get_args(kind)[0])
    if origin is Literal or kind in _CLOSED:
        return False
    if isinstance(kind, type) and issubclass(kind, Struct):
        return bool(openings(kind))
    return True
