"""Reading what another program said: a value of another type than expected counts as not said."""

from typing import Any

import msgspec


def text(value: object) -> str:
    return value if isinstance(value, str) else ""


def count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0


def mapping(value: object) -> dict[str, Any]:
    return msgspec.convert(value, dict[str, Any]) if isinstance(value, dict) else {}


def items(value: object) -> list[Any]:
    return msgspec.convert(value, list[Any]) if isinstance(value, list) else []


def mappings(value: object) -> list[dict[str, Any]]:
    return [mapping(item) for item in items(value)]
