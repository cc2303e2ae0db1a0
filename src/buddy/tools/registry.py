"""The tools that a model may call, by name.

Invariants: names are unique; arguments that `parse` returned have the type that their tool declared; a tool that
declares no tier, or one that is not known, is privileged.
"""

from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from functools import cached_property
from typing import Any, get_args

from msgspec import Struct

from buddy.errors import ToolError
from buddy.protocol.codes import Tier
from buddy.steps import Steps
from buddy.tools import arguments
from buddy.tools.contract import DescribesArguments, Tool
from buddy.tools.descriptions import Description

# Tools differ in the type of their arguments; `parse` is what pairs the two, so here that type is open.
AnyTool = Tool[Any]
TIERS: dict[object, Tier] = {tier: tier for tier in get_args(Tier)}

DELEGATE = "delegate"


class Definition(Struct, frozen=True):
    """A tool as the model sees it; `parameters` is its JSON Schema."""

    name: str
    description: str
    parameters: dict[str, Any]


class LazyTool(Struct, frozen=True):
    """A tool that is created when it is first called; its description is enough until then."""

    name: str
    described: Description
    create: Callable[[], AnyTool]

    @property
    def tier(self) -> Tier:
        return self.described.tier

    @property
    def concurrent(self) -> bool:
        return self.described.concurrent


class Registry:
    def __init__(self, tools: Iterable[AnyTool | LazyTool]) -> None:
        self._tools: dict[str, AnyTool | LazyTool] = {}
        for tool in tools:
            if tool.name in self._tools:
                raise ValueError(f"two tools have the name {tool.name!r}")
            self._tools[tool.name] = tool

    def __iter__(self) -> Iterator[AnyTool | LazyTool]:
        return iter(self._tools.values())

    @property
    def names(self) -> AbstractSet[str]:
        return self._tools.keys()

    def specs(self) -> tuple[Definition, ...]:
        """All tools, by name: the same text for the same tools, so that providers can cache it."""
        return self._specs

    def get(self, name: str) -> AnyTool:
        found = self._tools.get(name)
        if found is None:
            raise ToolError(f"unknown tool {name[:80]!r}. Available: {', '.join(sorted(self._tools)) or 'none'}")
        if isinstance(found, LazyTool):
            found = self._tools[name] = found.create()
        return found

    def tier_of(self, name: str) -> Tier:
        """How much a tool may do; privileged for a name that is not in here."""
        return declared_tier(self._tools.get(name))

    def is_concurrent(self, name: str) -> bool:
        """Whether adjacent calls of this tool run at the same time."""
        return self.tier_of(name) == "read-only" or getattr(self._tools.get(name), "concurrent", False) is True

    def without(self, names: AbstractSet[str]) -> "Registry":
        """These tools except the named ones."""
        return Registry(tool for name, tool in self._tools.items() if name not in names)

    def for_planning(self) -> "Registry":
        """Those that change nothing, and the one that starts sub-agents, which plan as well."""
        tools = self._tools.values()
        return Registry(tool for tool in tools if declared_tier(tool) == "read-only" or tool.name == DELEGATE)

    def parse(self, tool: AnyTool, arguments_json: str) -> Struct:
        """Read the arguments of a call; ToolError says what is wrong with them."""
        if isinstance(tool, DescribesArguments):
            return tool.read_arguments(arguments.read_object(tool.name, arguments_json))
        return arguments.parse(tool.name, tool.args, arguments_json)

    def parse_long(self, tool: AnyTool, arguments_json: str) -> Steps[Struct]:
        """The same in steps, for arguments of any length."""
        if isinstance(tool, DescribesArguments):
            return tool.read_arguments((yield from arguments.read_long_object(tool.name, arguments_json)))
        return (yield from arguments.parse_long(tool.name, tool.args, arguments_json))

    @cached_property
    def _specs(self) -> tuple[Definition, ...]:
        shown = (
            tool for tool in self._tools.values() if not (isinstance(tool, DescribesArguments) and tool.is_deferred)
        )
        return tuple(map(_definition, sorted(shown, key=lambda tool: tool.name)))


def declared_tier(tool: object) -> Tier:
    """The tier of a tool that may come from elsewhere: not declared, or not known, means privileged."""
    declared: object = getattr(tool, "tier", None)
    return TIERS.get(declared, "privileged") if isinstance(declared, str) else "privileged"


def _definition(tool: AnyTool | LazyTool) -> Definition:
    if isinstance(tool, LazyTool):
        return Definition(tool.name, tool.described.description, tool.described.parameters)
    if isinstance(tool, DescribesArguments):
        return Definition(tool.name, tool.description, tool.parameters)
    return Definition(tool.name, tool.description, arguments.schema_of(tool.args))
