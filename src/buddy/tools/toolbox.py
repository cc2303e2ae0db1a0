"""The tools of a runtime: the built-in ones with what they need, and those that are installed beside them, without what
is turned off."""

import time
from collections.abc import Callable

from msgspec import Struct

from buddy.config.settings import ToolSettings
from buddy.tools.capture_pane import CapturePane
from buddy.tools.edit_file import EditFile
from buddy.tools.fetch.duckduckgo import DuckDuckGo
from buddy.tools.fetch.fetch_url import FetchUrl, Getter, HasSecret
from buddy.tools.fetch.web_search import SearchProvider, WebSearch
from buddy.tools.glob import FindFiles
from buddy.tools.grep import Grep
from buddy.tools.list_files import ListFiles
from buddy.tools.plugins import installed
from buddy.tools.read_file import ReadFile
from buddy.tools.read_output import ReadBlob, ReadOutput
from buddy.tools.registry import AnyTool, Registry
from buddy.tools.run_shell import RunShell
from buddy.tools.searching import Programs
from buddy.tools.send_keys import SendKeys
from buddy.tools.time import Time
from buddy.tools.todo import Todo
from buddy.tools.write_file import WriteFile

# Offered only where commands run in a tmux pane.
PANE_TOOLS = frozenset({"capture-pane", "send-keys"})
FILE_TOOLS = frozenset({"read_file", "write_file", "edit_file", "list_files", "grep", "glob"})


async def _no_blobs(_blob: str, _offset: int, _limit: int | None) -> tuple[bytes, int] | None:
    return None


class Supplies(Struct, frozen=True):
    """What tools need of the runtime around them. Without `getter` and `search`, the web itself is asked."""

    clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    read_blob: ReadBlob = _no_blobs
    has_secret: HasSecret = lambda _text: False
    getter: Getter | None = None
    search: SearchProvider | None = None


def toolbox(settings: ToolSettings, supplies: Supplies) -> Registry:
    """All tools that a runtime with these settings has."""
    tools = {tool.name: tool for tool in builtin(supplies)}
    tools |= {tool.name: tool for tool in installed(tools)}
    return Registry(tools.values()).without(turned_off(settings))


def builtin(supplies: Supplies | None = None) -> tuple[AnyTool, ...]:
    given = supplies or Supplies()
    programs = Programs()
    return (
        CapturePane(),
        EditFile(),
        FetchUrl(given.has_secret, given.getter),
        FindFiles(programs),
        Grep(programs),
        ListFiles(),
        ReadFile(),
        ReadOutput(given.read_blob),
        RunShell(),
        SendKeys(),
        Time(given.clock),
        Todo(),
        WebSearch(given.has_secret, given.search or DuckDuckGo(given.getter)),
        WriteFile(),
    )


def turned_off(settings: ToolSettings) -> set[str]:
    """The names of the tools that `[tools]` turns off."""
    switches = {
        frozenset({"run_shell", *PANE_TOOLS}): settings.shell_enabled,
        FILE_TOOLS: settings.files_enabled,
        frozenset({"fetch_url"}): settings.fetch_enabled,
        frozenset({"web_search"}): settings.search_enabled,
    }
    return {name for names, is_on in switches.items() if not is_on for name in names}
