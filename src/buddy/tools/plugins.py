"""Tools of other packages: each names a callable in the entry point group `buddy.tools`.

Invariants: a tool that can't be loaded is logged and skipped, the others stay; none replaces a tool of the same name.
"""

import logging
import os
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, get_args

from msgspec import Struct

from buddy.protocol.codes import Source, Tier
from buddy.tools.arguments import schema_of
from buddy.tools.registry import AnyTool

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "buddy.tools"

log = logging.getLogger("buddy.tools")


def installed_tools(taken: Iterable[str]) -> list[AnyTool]:
    """The tools of installed packages, without those whose names are `taken`."""
    names = set(taken)
    found: list[AnyTool] = []
    if not any(map(_may_bring_tools, sys.path)):
        return found
    from importlib.metadata import entry_points

    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        try:
            tool = _load(point)
            if tool.name in names:
                raise TypeError(f"a tool named {tool.name!r} already exists")  # noqa: TRY301 - reported like the rest
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a broken plugin must not stop the start
            log.warning("skipped the tool %r (%s): %s: %s", point.name, point.value, type(error).__name__, error)
            continue
        names.add(tool.name)
        found.append(tool)
    return found


def _may_bring_tools(folder: str) -> bool:
    """Whether a package in this folder of `sys.path` declares our group.

    Reads the files itself: importlib.metadata takes longer than all other work with tools at startup.
    """
    try:
        entries = os.listdir(folder or ".")  # noqa: PTH208 - creating path objects takes longer than the check
    except OSError:
        return os.path.isfile(folder)  # noqa: PTH113 - an archive, which importlib.metadata can read
    return any(
        _names_group(f"{folder or '.'}/{name}/entry_points.txt")
        for name in entries
        if name.endswith((".dist-info", ".egg-info"))
    )


def _names_group(path: str) -> bool:
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - see above
            return GROUP.encode() in file.read()
    except OSError:
        return False


def _load(point: "EntryPoint") -> AnyTool:
    tool: AnyTool = point.load()()
    problems = list(_problems(tool))
    if problems:
        raise TypeError("; ".join(problems))
    return tool


def _problems(tool: AnyTool) -> Iterator[str]:
    """What is wrong with an imported tool; no type checker has seen it."""
    if not (isinstance(tool.name, str) and tool.name.isidentifier() and len(tool.name) <= 64):  # pyright: ignore[reportUnnecessaryIsInstance] - it is foreign code
        yield "its name must be a word of at most 64 letters, digits and underscores"
    if (tier := getattr(tool, "tier", None)) is not None and tier not in get_args(Tier):
        yield f"its tier must be one of {', '.join(get_args(Tier))}"
    if tool.source not in get_args(Source):
        yield f"its source must be one of {', '.join(get_args(Source))}"
    if not (callable(tool.intent) and callable(tool.run) and tool.description):
        yield "it needs a description, intent and run"
    if not issubclass(tool.args, Struct):  # pyright: ignore[reportUnnecessaryIsInstance] - it is foreign code
        yield "its args must be a msgspec Struct"
    else:
        schema_of(tool.args)
    _ = tool.timeout
