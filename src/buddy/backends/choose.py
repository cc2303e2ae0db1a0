"""Which backend a session gets: the requested one, else its project's, else the server's; `auto` is resolved here.

Invariants: only `auto` is ever replaced by another name; if it resolves to the native agent because no other is
installed, the session says so.
"""

from collections.abc import Callable

from msgspec import Struct

from buddy.errors import UserError

AUTO = "auto"
NATIVE = "native"
OTHERS = ("droid", "opencode")
ACP = "acp:"


class Choice(Struct, frozen=True):
    """`note` explains an unexpected choice to the user."""

    name: str
    note: str = ""


def check_name(name: str) -> str:
    """Validate the name of an agent runtime; UserError if it is unknown."""
    if name in (AUTO, NATIVE, *OTHERS) or (name.startswith(ACP) and name.removeprefix(ACP).strip()):
        return name
    raise UserError(
        f"unknown agent runtime {name[:80]!r}",
        hint="available: native, auto, droid, opencode, acp:COMMAND",
    )


def choose(wanted: str, *, prefers_droid: Callable[[], bool], is_installed: Callable[[str], bool]) -> Choice:
    """`auto` is Droid if Factory credentials exist, else OpenCode, else the native agent."""
    if check_name(wanted) != AUTO:
        return Choice(wanted)
    has_key = prefers_droid()
    for name in OTHERS if has_key else ("opencode",):
        if is_installed(name):
            return Choice(name)
    missing = "neither droid nor opencode is installed" if has_key else "opencode is not installed"
    return Choice(NATIVE, f"agent_runtime is auto and {missing}: this session uses the native agent")
