"""Optional capabilities: protocols that some implementations of an interface satisfy and others do not.

Invariant: all objects of a class answer alike, so each class is examined once. `isinstance` examines every member of a
protocol each time, which takes longer than most of what depends on the answer.
"""

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from typing_extensions import TypeIs

Capability = TypeVar("Capability")

_known: dict[tuple[type, type], bool] = {}


def has(value: object, capability: type[Capability]) -> "TypeIs[Capability]":
    """Whether the object's class satisfies a runtime-checkable protocol."""
    key = type(value), capability
    found = _known.get(key)
    if found is None:
        found = _known[key] = isinstance(value, capability)
    return found
