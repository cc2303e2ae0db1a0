"""Buddy's directories and socket as strings: all that a command needs to talk to the daemon.

Invariants: every path is absolute, nothing is created here, and an empty variable counts as unset.
"""

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


def config_path(env: "Mapping[str, str]") -> str:
    return f"{_xdg(env, 'XDG_CONFIG_HOME', '.config')}/buddy"


def config_file(env: "Mapping[str, str]", given: str | None = None) -> str:
    """The configuration file that a command line and its environment mean; empty if there is none."""
    named = _absolute(given or env.get("BUDDY_CONFIG"))
    folder = config_path(env)
    candidates = (f"{folder}/buddy.toml", f"{folder}/agent.toml", f"{os.path.dirname(folder)}/agent/agent.toml")  # noqa: PTH120 - as below
    return named or next((path for path in candidates if os.path.isfile(path)), "")  # noqa: PTH113 - as below


def state_path(env: "Mapping[str, str]", given: str | None = None) -> str:
    """Command line over environment over the XDG default."""
    return _own_state(env, given) or f"{_xdg(env, 'XDG_STATE_HOME', '.local/state')}/buddy"


def socket_path(env: "Mapping[str, str]", state: str | None = None, given: str | None = None) -> str:
    """The socket of the daemon that serves this state directory."""
    own = _absolute(given or env.get("BUDDY_SOCKET"))
    if own:
        return own
    # A custom state directory has its own daemon: two daemons must not share a socket.
    runtime = env.get("XDG_RUNTIME_DIR", "")
    if _own_state(env, state) or not runtime.startswith("/"):
        return f"{state_path(env, state)}/run/buddyd.sock"
    return f"{runtime}/buddy/buddyd.sock"


def _own_state(env: "Mapping[str, str]", given: str | None) -> str:
    return _absolute(given or env.get("BUDDY_STATE_DIR"))


def _xdg(env: "Mapping[str, str]", name: str, fallback: str) -> str:
    # The XDG specification says to ignore relative values.
    value = env.get(name, "")
    return value if value.startswith("/") else f"{_home(env)}/{fallback}"


def _home(env: "Mapping[str, str]") -> str:
    home = env.get("HOME", "")
    if home.startswith("/"):
        return home
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        from buddy.errors import UserError

        raise UserError("no home directory found", hint="set HOME to an absolute path") from None


def _absolute(path: str | None) -> str:
    if not path:
        return ""
    return os.path.join(os.getcwd(), os.path.expanduser(path))  # noqa: PTH109, PTH111, PTH118 - avoids importing pathlib
