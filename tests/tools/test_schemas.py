"""The schemas that were made beforehand are those that would be made now."""

from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from buddy.tools import schemas
from buddy.tools.arguments import make_schema, schema_of
from buddy.tools.toolbox import builtin


def test_they_are_those_of_the_tools() -> None:
    kept = msgspec.json.decode(Path(schemas.__file__).with_name("schemas.json").read_bytes())
    made = msgspec.json.decode(schemas.source())
    shown = {name: entry["schema"] for name, entry in kept.items()}
    assert shown == {name: entry["schema"] for name, entry in made.items()}, "python -m buddy.tools.schemas writes it"


def test_a_tool_is_shown_with_the_schema_of_the_fields_it_has() -> None:
    for tool in builtin():
        assert msgspec.json.encode(schema_of(tool.args)) == msgspec.json.encode(make_schema(tool.args))


def test_one_that_is_not_kept_is_made() -> None:
    class Args(Struct):
        size: Annotated[int, Meta(description="how much")] = 1

    assert schemas.kept_schema(Args) is None
    assert schema_of(Args)["properties"]["size"]["description"] == "how much"
