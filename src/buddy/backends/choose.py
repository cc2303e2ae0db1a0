"""Which backend a session gets: what it asked for, else its project's, else the server's, with `auto` looked up.

Invariants: a name is never replaced by another one, only `auto` is; where it ends at our own agent because no
other is installed, that is said.
"""

from collections.abc import Callable

from msgspec import Struct

from buddy.errors import UserError

AUTO = "auto"
NATIVE = "native"
OTHERS = ("droid", "opencode")
ACP = "acp:"


class Choice(Struct, frozen=True):
    """`note` is for the user: why it is not what could be expected."""

    name: str
    note: str = ""


def check_name(name: str) -> str:
    """The name of an agent runtime as it may be asked for; UserError for any other."""
    if name in (AUTO, NATIVE, *OTHERS) or (name.startswith(ACP) and name.removeprefix(ACP).strip()):
        return name
    raise UserError(
        f"there is no agent runtime {name[:80]!r}",
        hint="there are native, auto, droid, opencode and acp:COMMAND",
    )


def choose(wanted: str, *, prefers_droid: Callable[[], bool], is_installed: Callable[[str], bool]) -> Choice:
    """`auto` is Droid where Factory's credentials are, else OpenCode, else our own agent."""
    if check_name(wanted) != AUTO:
        return Choice(wanted)
    has_key = prefers_droid()
    for name in OTHERS if has_key else ("opencode",):
        if is_installed(name):
            return Choice(name)
    missing = "neither droid nor opencode is installed" if has_key else "opencode is not installed"
    return Choice(NATIVE, f"agent_runtime is auto, and {missing}: this session is native")
