"""The tools of a runtime: the built-in ones with their dependencies and those of installed packages, without what is
turned off."""

import time
from collections.abc import Callable
from functools import cache, partial
from typing import TYPE_CHECKING

from msgspec import Struct

from buddy.config.settings import ToolSettings
from buddy.tools.descriptions import builtin_descriptions
from buddy.tools.plugins import installed_tools
from buddy.tools.registry import AnyTool, LazyTool, Registry

if TYPE_CHECKING:
    from buddy.tools.delegate import Children, FindAgents
    from buddy.tools.fetch.fetch_url import Getter, HasSecret
    from buddy.tools.fetch.web_search import SearchProvider
    from buddy.tools.read_output import ReadBlob

# Available only if commands run in a tmux pane.
PANE_TOOLS = frozenset({"capture-pane", "send-keys"})
FILE_TOOLS = frozenset({"read_file", "write_file", "edit_file", "list_files", "grep", "glob"})


async def _no_blobs(_blob: str, _offset: int, _limit: int | None) -> tuple[bytes, int] | None:
    return None


class ToolDeps(Struct, frozen=True):
    """What tools need from the runtime. Without `getter` and `search`, the web itself is asked."""

    clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    read_blob: "ReadBlob" = _no_blobs
    has_secret: "HasSecret" = lambda _text: False
    children: "Children | None" = None
    find_agents: "FindAgents | None" = None
    getter: "Getter | None" = None
    search: "SearchProvider | None" = None


def toolbox(settings: ToolSettings, deps: ToolDeps) -> Registry:
    """All tools of a runtime with these settings. Built-in ones are created when they are first called."""
    tools: dict[str, AnyTool | LazyTool] = {
        name: LazyTool(name, described, cache(partial(FACTORIES[name], deps)))
        for name, described in builtin_descriptions().items()
    }
    tools |= {tool.name: tool for tool in installed_tools(tools)}
    return Registry(tools.values()).without(turned_off(settings))


def builtin(deps: ToolDeps | None = None) -> tuple[AnyTool, ...]:
    return tuple(create(deps or ToolDeps()) for create in FACTORIES.values())


def without_panes(registry: Registry) -> Registry:
    return registry.without(PANE_TOOLS)


def turned_off(settings: ToolSettings) -> set[str]:
    """The names of the tools that `[tools]` turns off."""
    switches = {
        frozenset({"run_shell", *PANE_TOOLS}): settings.shell_enabled,
        FILE_TOOLS: settings.files_enabled,
        frozenset({"fetch_url"}): settings.fetch_enabled,
        frozenset({"web_search"}): settings.search_enabled,
    }
    return {name for names, is_on in switches.items() if not is_on for name in names}


# Each imports its tool only when it is called: a start describes all tools, and most sessions use a few.


def _capture_pane(_deps: ToolDeps) -> AnyTool:
    from buddy.tools.capture_pane import CapturePane

    return CapturePane()


def _delegate(deps: ToolDeps) -> AnyTool:
    from buddy.tools.delegate import Delegate

    return Delegate(deps.children, deps.find_agents)


def _edit_file(_deps: ToolDeps) -> AnyTool:
    from buddy.tools.edit_file import EditFile

    return EditFile()


def _fetch_url(deps: ToolDeps) -> AnyTool:
    from buddy.tools.fetch.fetch_url import FetchUrl

    return FetchUrl(deps.has_secret, deps.getter)


def _glob(_deps: ToolDeps) -> AnyTool:
    from buddy.tools.glob import FindFiles
    from buddy.tools.searching import Programs

    return FindFiles(Programs())


def _grep(_deps: ToolDeps) -> AnyTool:
    from buddy.tools.grep import Grep
    from buddy.tools.searching import Programs

    return Grep(Programs())


def _list_files(_deps: ToolDeps) -> AnyTool:
    from buddy.tools.list_files import ListFiles

    return ListFiles()


def _read_file(_deps: ToolDeps) -> AnyTool:
    from buddy.tools.read_file import ReadFile

    return ReadFile()


def _read_output(deps: ToolDeps) -> AnyTool:
    from buddy.tools.read_output import ReadOutput

    return ReadOutput(deps.read_blob)


def _run_shell(_deps: ToolDeps) -> AnyTool:
    from buddy.tools.run_shell import RunShell

    return RunShell()


def _send_keys(_deps: ToolDeps) -> AnyTool:
    from buddy.tools.send_keys import SendKeys

    return SendKeys()


def _time(deps: ToolDeps) -> AnyTool:
    from buddy.tools.time import Time

    return Time(deps.clock)


def _todo(_deps: ToolDeps) -> AnyTool:
    from buddy.tools.todo import Todo

    return Todo()


def _web_search(deps: ToolDeps) -> AnyTool:
    from buddy.tools.fetch.duckduckgo import DuckDuckGo
    from buddy.tools.fetch.web_search import WebSearch

    return WebSearch(deps.has_secret, deps.search or DuckDuckGo(deps.getter))


def _write_file(_deps: ToolDeps) -> AnyTool:
    from buddy.tools.write_file import WriteFile

    return WriteFile()


FACTORIES: dict[str, Callable[[ToolDeps], AnyTool]] = {
    "capture-pane": _capture_pane,
    "delegate": _delegate,
    "edit_file": _edit_file,
    "fetch_url": _fetch_url,
    "glob": _glob,
    "grep": _grep,
    "list_files": _list_files,
    "read_file": _read_file,
    "read_output": _read_output,
    "run_shell": _run_shell,
    "send-keys": _send_keys,
    "time": _time,
    "todo": _todo,
    "web_search": _web_search,
    "write_file": _write_file,
}
