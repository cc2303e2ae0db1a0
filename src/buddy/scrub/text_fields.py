"""Finds the fields of a struct that can hold arbitrary text: those whose type is neither a number nor a fixed choice.

Invariants: a field that is not listed can only be a number, a flag, one of the values that its type lists, or a struct
of such fields.
"""

from collections.abc import Callable
from functools import cache
from operator import attrgetter
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from msgspec import Struct

TextField = tuple[str, Callable[[Any], object]]  # a field's name on the wire, and how to get its value

_CLOSED = (int, float, bool, NoneType)


@cache
def text_fields(shape: type[Struct]) -> tuple[TextField, ...]:
    # Not `msgspec.structs.fields`, which resolves types that are written as strings: those count as open here.
    kinds: dict[str, Any] = {}
    for base in reversed(shape.__mro__):
        kinds.update(getattr(base, "__annotations__", {}))
    names = zip(shape.__struct_fields__, shape.__struct_encode_fields__, strict=True)
    return tuple((wire_name, attrgetter(name)) for name, wire_name in names if _is_open(kinds[name]))


def _is_open(kind: Any) -> bool:
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        return any(map(_is_open, get_args(kind)))
    if origin is Annotated:
        return _is_open(get_args(kind)[0])
    if origin is Literal or kind in _CLOSED or kind is None:
        return False
    if isinstance(kind, type) and issubclass(kind, Struct):
        return bool(text_fields(kind))
    return True
