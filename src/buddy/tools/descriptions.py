"""The descriptions of the built-in tools, generated: `python -m tools.tool_descriptions` writes `descriptions.json`.

A start needs the names, texts and schemas of all tools, and the code of none of them; importing that and generating the
schemas would take 15 ms. Invariant: the file says the same as the tools (a test compares them).
"""

from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from buddy.protocol.codes import Tier

FILE = Path(__file__).with_name("descriptions.json")


class Description(Struct, frozen=True, omit_defaults=True):
    """A tool as the model sees it, and its tier; `parameters` is the JSON Schema of its arguments.

    `concurrent`: its calls run at the same time, although they do not only read.
    """

    tier: Tier
    description: str
    parameters: dict[str, Any]
    concurrent: bool = False


@cache
def builtin_descriptions() -> dict[str, Description]:
    return msgspec.json.decode(FILE.read_bytes(), type=dict[str, Description])


def builtin_tier(name: str) -> Tier | None:
    """The tier of a built-in tool; None for any other."""
    found = builtin_descriptions().get(name)
    return found.tier if found is not None else None
