"""The tools of a runtime: the built-in ones with what they need, and those that are installed beside them, without what
is turned off."""

import time
from collections.abc import Callable
from functools import cache, partial
from typing import TYPE_CHECKING

from msgspec import Struct

from buddy.config.settings import ToolSettings
from buddy.tools.offers import offers
from buddy.tools.plugins import installed
from buddy.tools.registry import AnyTool, Registry, Shelved

if TYPE_CHECKING:
    from buddy.tools.fetch.fetch_url import Getter, HasSecret
    from buddy.tools.fetch.web_search import SearchProvider
    from buddy.tools.read_output import ReadBlob

# Offered only where commands run in a tmux pane.
PANE_TOOLS = frozenset({"capture-pane", "send-keys"})
FILE_TOOLS = frozenset({"read_file", "write_file", "edit_file", "list_files", "grep", "glob"})


async def _no_blobs(_blob: str, _offset: int, _limit: int | None) -> tuple[bytes, int] | None:
    return None


class Supplies(Struct, frozen=True):
    """What tools need of the runtime around them. Without `getter` and `search`, the web itself is asked."""

    clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    read_blob: "ReadBlob" = _no_blobs
    has_secret: "HasSecret" = lambda _text: False
    getter: "Getter | None" = None
    search: "SearchProvider | None" = None


def toolbox(settings: ToolSettings, supplies: Supplies) -> Registry:
    """All tools that a runtime with these settings has. Those of our own are made when they are first called."""
    tools: dict[str, AnyTool | Shelved] = {
        name: Shelved(name, offer, cache(partial(make, name, supplies))) for name, offer in offers().items()
    }
    tools |= {tool.name: tool for tool in installed(tools)}
    return Registry(tools.values()).without(turned_off(settings))


def builtin(supplies: Supplies | None = None) -> tuple[AnyTool, ...]:
    return tuple(make(name, supplies or Supplies()) for name in NAMES)


NAMES = (
    *("capture-pane", "edit_file", "fetch_url", "glob", "grep", "list_files", "read_file", "read_output", "run_shell"),
    *("send-keys", "time", "todo", "web_search", "write_file"),
)


def make(name: str, given: Supplies) -> AnyTool:  # noqa: C901 - one arm per tool, nothing nested
    match name:
        case "capture-pane":
            from buddy.tools.capture_pane import CapturePane

            return CapturePane()
        case "edit_file":
            from buddy.tools.edit_file import EditFile

            return EditFile()
        case "fetch_url":
            from buddy.tools.fetch.fetch_url import FetchUrl

            return FetchUrl(given.has_secret, given.getter)
        case "glob":
            from buddy.tools.glob import FindFiles
            from buddy.tools.searching import Programs

            return FindFiles(Programs())
        case "grep":
            from buddy.tools.grep import Grep
            from buddy.tools.searching import Programs

            return Grep(Programs())
        case "list_files":
            from buddy.tools.list_files import ListFiles

            return ListFiles()
        case "read_file":
            from buddy.tools.read_file import ReadFile

            return ReadFile()
        case "read_output":
            from buddy.tools.read_output import ReadOutput

            return ReadOutput(given.read_blob)
        case "run_shell":
            from buddy.tools.run_shell import RunShell

            return RunShell()
        case "send-keys":
            from buddy.tools.send_keys import SendKeys

            return SendKeys()
        case "time":
            from buddy.tools.time import Time

            return Time(given.clock)
        case "todo":
            from buddy.tools.todo import Todo

            return Todo()
        case "web_search":
            from buddy.tools.fetch.duckduckgo import DuckDuckGo
            from buddy.tools.fetch.web_search import WebSearch

            return WebSearch(given.has_secret, given.search or DuckDuckGo(given.getter))
        case "write_file":
            from buddy.tools.write_file import WriteFile

            return WriteFile()
        case _:
            raise ValueError(f"no built-in tool {name!r}")


def turned_off(settings: ToolSettings) -> set[str]:
    """The names of the tools that `[tools]` turns off."""
    switches = {
        frozenset({"run_shell", *PANE_TOOLS}): settings.shell_enabled,
        FILE_TOOLS: settings.files_enabled,
        frozenset({"fetch_url"}): settings.fetch_enabled,
        frozenset({"web_search"}): settings.search_enabled,
    }
    return {name for names, is_on in switches.items() if not is_on for name in names}
