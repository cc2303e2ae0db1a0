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

Opening = tuple[str, Callable[[Any], object]]  # a field's name on the wire, and how to get its value

_CLOSED = (int, float, bool, NoneType)


@cache
def openings(shape: type[Struct]) -> tuple[Opening, ...]:
    # Not `msgspec.structs.fields`, which resolves types that are named in text: those are open here.
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
        return bool(openings(kind))
    return True
