"""What the command line hands to its terminal, besides the session."""

from collections.abc import Awaitable, Callable

from msgspec import Struct


class DisplayOptions(Struct, frozen=True):
    color: bool = True
    show_tokens: bool = False
    show_tool_calls: bool = True


class ProfileDetails(Struct, frozen=True):
    """Where a profile's model is reached, the tools it is offered, and the rules that hold for them, as (id, text)."""

    endpoint: str = ""
    tools: tuple[str, ...] = ()
    rules: tuple[tuple[str, str], ...] = ()


class Profiles(Struct, frozen=True):
    """The configured model profiles. `describe(profile, has_pane)` loads the tools, so it belongs in a thread."""

    models: Callable[[], dict[str, str]]
    """Profile name → model name, which may be empty; read from the configuration as it is now."""
    describe: Callable[[str, bool], ProfileDetails]


class BuddyProgram(Struct, frozen=True):
    """How to run other `buddy` commands on the same state and folder."""

    program: tuple[str, ...]
    flags: tuple[str, ...]
    restart_daemon: Callable[[], Awaitable[None]]

    def command(self, *arguments: str) -> list[str]:
        return [*self.program, *arguments, *self.flags]


class TerminalSettings(Struct, frozen=True):
    display: DisplayOptions
    profiles: Profiles
    buddy: BuddyProgram
    notify: bool | str = True
    """How a terminal that nobody looks at calls its person: by itself, not at all, or in one way."""
