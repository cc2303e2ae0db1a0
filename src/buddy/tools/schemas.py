"""The schemas of the built-in tools, made beforehand: `python -m buddy.tools.schemas` writes `schemas.json`.

Making them takes 10 ms and loads half of msgspec, which every start of a session in a new process would pay. What
always holds: one that was made from other fields than those a tool has now is not used.
"""

from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

_FILE = Path(__file__).with_name("schemas.json")


class Kept(Struct, frozen=True):
    fields: str
    schema: dict[str, Any]


def kept_schema(args: type[Struct]) -> dict[str, Any] | None:
    """The schema that was made of these arguments; None where there is none, or they have changed since."""
    kept = _all().get(_name(args))
    return kept.schema if kept is not None and kept.fields == fields_of(args) else None


def fields_of(args: type[Struct]) -> str:
    """All that a schema is made from, as text."""
    fields = [f"{name}: {kind}" for name, kind in args.__annotations__.items()]
    # Made anew for each value, a default has no text of its own.
    defaults = [repr(default) if repr(default)[0] != "<" else "made" for default in args.__struct_defaults__]
    return f"{args.__doc__ or ''}({', '.join(fields)}) {', '.join(defaults)}"


def source() -> bytes:
    """The text of `schemas.json`."""
    from buddy.tools.arguments import make_schema
    from buddy.tools.toolbox import builtin

    found = {_name(tool.args): Kept(fields_of(tool.args), make_schema(tool.args)) for tool in builtin()}
    return msgspec.json.format(msgspec.json.encode(found), indent=1) + b"\n"


@cache
def _all() -> dict[str, Kept]:
    try:
        return msgspec.json.decode(_FILE.read_bytes(), type=dict[str, Kept])
    except (OSError, msgspec.DecodeError):
        return {}


def _name(args: type[Struct]) -> str:
    return f"{args.__module__}.{args.__qualname__}"


if __name__ == "__main__":
    _FILE.write_bytes(source())
