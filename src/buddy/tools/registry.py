"""The tools that a model may call, by name.

What always holds: names are unique, and arguments that `parse` gave have the type that their tool declared.
"""

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any

from msgspec import Struct

from buddy.errors import ToolError
from buddy.protocol.codes import Tier
from buddy.tools import arguments
from buddy.tools.contract import Tool
from buddy.tools.offers import Offer

# Tools differ in the type of their arguments; `parse` is what pairs the two, so here that type is open.
AnyTool = Tool[Any]


class Definition(Struct, frozen=True):
    """A tool as the model sees it; `parameters` is its JSON Schema."""

    name: str
    description: str
    parameters: dict[str, Any]


class Shelved(Struct, frozen=True):
    """A tool that is made when it is first called; what is known of it before is enough to offer it."""

    name: str
    offer: Offer
    make: Callable[[], AnyTool]

    @property
    def tier(self) -> Tier:
        return self.offer.tier


class Registry:
    def __init__(self, tools: Iterable[AnyTool | Shelved]) -> None:
        self._tools: dict[str, AnyTool | Shelved] = {}
        for tool in tools:
            if tool.name in self._tools:
                raise ValueError(f"two tools are called {tool.name!r}")
            self._tools[tool.name] = tool

    def specs(self) -> tuple[Definition, ...]:
        """All tools, by name: the same text for the same tools, so that providers can cache it."""
        return self._specs

    def get(self, name: str) -> AnyTool:
        found = self._tools.get(name)
        if found is None:
            there = ", ".join(sorted(self._tools)) or "none"
            raise ToolError(f"no tool {name[:80]!r}; there are {there}")
        if isinstance(found, Shelved):
            found = self._tools[name] = found.make()
        return found

    def without(self, names: set[str]) -> "Registry":
        """The same tools but these."""
        return Registry(tool for name, tool in self._tools.items() if name not in names)

    def read_only(self) -> "Registry":
        """Those that change nothing."""
        return Registry(tool for tool in self._tools.values() if tool.tier == "read-only")

    def parse(self, tool: AnyTool, arguments_json: str) -> Struct:
        """Read a call's arguments; what is wrong with them is said in a ToolError."""
        return arguments.parse(tool.name, tool.args, arguments_json)

    @cached_property
    def _specs(self) -> tuple[Definition, ...]:
        return tuple(map(_definition, sorted(self._tools.values(), key=lambda tool: tool.name)))


def _definition(tool: AnyTool | Shelved) -> Definition:
    if isinstance(tool, Shelved):
        return Definition(tool.name, tool.offer.description, tool.offer.parameters)
    return Definition(tool.name, tool.description, arguments.schema_of(tool.args))
