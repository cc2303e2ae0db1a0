"""What a model is told of the built-in tools, made beforehand: `python -m buddy.tools.offers` writes `offers.json`.

A start needs the names, the texts and the schemas of all tools, and the code of none of them. Loading that and making
the schemas anew would take 15 ms. What always holds: a test keeps the file to the tools.
"""

from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from buddy.protocol.codes import Tier

_FILE = Path(__file__).with_name("offers.json")


class Offer(Struct, frozen=True):
    """A tool as it is offered: `parameters` is the JSON Schema of its arguments."""

    tier: Tier
    description: str
    parameters: dict[str, Any]


@cache
def offers() -> dict[str, Offer]:
    return msgspec.json.decode(_FILE.read_bytes(), type=dict[str, Offer])


def source() -> bytes:
    """The text of `offers.json`."""
    from buddy.tools.arguments import schema_of
    from buddy.tools.toolbox import builtin

    made = {tool.name: Offer(tool.tier, tool.description, schema_of(tool.args)) for tool in builtin()}
    return msgspec.json.format(msgspec.json.encode(made), indent=1) + b"\n"


if __name__ == "__main__":
    _FILE.write_bytes(source())
