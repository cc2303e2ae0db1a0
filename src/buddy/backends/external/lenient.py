"""Lenient readers for JSON from other programs: a value of an unexpected type counts as missing."""

import re
from typing import Any

import msgspec

MAX_DEPTH = 64
_BRACKETS = re.compile(rb'"(?:[^"\\]|\\.)*"|([\[{])|([\]}])')


def decode(data: bytes) -> object:
    """Decode JSON; ValueError if it is invalid or too deeply nested to store."""
    check_depth(data)
    return msgspec.json.decode(data)


def check_depth(data: bytes) -> None:
    if data.count(b"{") + data.count(b"[") <= MAX_DEPTH:
        return
    depth = 0
    for found in _BRACKETS.finditer(data):
        depth += 1 if found[1] else -1 if found[2] else 0
        if depth > MAX_DEPTH:
            raise ValueError(f"JSON is nested deeper than {MAX_DEPTH}")


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
