"""Hypothesis strategies for any shape of the protocol, read from its type, so that a new field is tested at once."""

from collections.abc import Mapping
from typing import TypeVar

import msgspec
from hypothesis import strategies as st
from msgspec import Raw, Struct, inspect, json

AnyStruct = TypeVar("AnyStruct", bound=Struct)
Values = st.SearchStrategy[object]

numbers = st.floats(allow_nan=False, allow_infinity=False)
json_values: Values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | numbers | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=4,
)


def ids(prefix: str) -> st.SearchStrategy[str]:
    return st.from_regex(rf"{prefix}_[A-Za-z0-9._:-]{{1,30}}", fullmatch=True)


def shapes(shape: type[AnyStruct]) -> st.SearchStrategy[AnyStruct]:
    """Any value of this struct type."""
    info = inspect.type_info(shape)
    assert isinstance(info, inspect.StructType)
    return st.fixed_dictionaries(_fields(info)).map(lambda fields: shape(**fields))


def _fields(info: inspect.StructType) -> Mapping[str, Values]:
    return {field.name: _values(field.type) for field in info.fields}


def _values(info: inspect.Type) -> Values:
    match info:
        case inspect.StructType():
            made: Values = shapes(info.cls)
        case inspect.UnionType():
            made = st.one_of([_values(choice) for choice in info.types])
        case inspect.LiteralType():
            made = st.sampled_from(list(info.values))
        case inspect.VarTupleType():
            made = st.lists(_values(info.item_type), min_size=info.min_length or 0, max_size=3).map(tuple)
        case inspect.DictType():
            made = st.dictionaries(st.text(max_size=6), _values(info.value_type), max_size=3)
        case inspect.Metadata():
            made = _by_schema(info)
        case _:
            made = _scalars(info)
    return made


def _by_schema(info: inspect.Metadata) -> Values:
    """What is valid by the schema, which says more than what is validated."""
    more = msgspec.to_builtins(info.extra_json_schema)  # pyright: ignore[reportUnknownMemberType] - untyped there
    return st.sampled_from(more["enum"]) if "enum" in more else _matching(more["pattern"])


def _matching(pattern: str) -> Values:
    return st.from_regex(pattern.replace("+$", "{1,30}").removeprefix("^"), fullmatch=True)


def _scalars(info: inspect.Type) -> Values:
    match info:
        case inspect.IntType():
            made: Values = st.integers(info.ge if info.ge is not None else -(2**53), info.le or 2**53)
        case inspect.FloatType():
            low = info.ge if info.ge is not None else info.gt
            high = info.le if info.le is not None else 1e12
            made = st.floats(low, high, exclude_min=info.gt is not None, allow_nan=False, allow_infinity=False)
        case inspect.StrType():
            anything = st.text(min_size=info.min_length or 0, max_size=12)
            made = _matching(info.pattern) if info.pattern else anything
        case inspect.BoolType():
            made = st.booleans()
        case inspect.NoneType():
            made = st.none()
        case inspect.AnyType():
            made = json_values
        case inspect.RawType():
            made = json_values.map(json.encode).map(Raw)
        case _:
            raise AssertionError(f"no strategy for {info}")
    return made
