"""Where Buddy keeps its things: one value, found once from the environment and the command line.

What always holds: every place is absolute, nothing is created here, and an empty variable counts as unset.
"""

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct


class Places(Struct, frozen=True):
    """The user's configuration, the durable state, and the socket the daemon listens on."""

    config_dir: Path
    state_dir: Path
    socket: Path


def find_places(
    env: Mapping[str, str], state_dir: str | Path | None = None, socket: str | Path | None = None
) -> Places:
    """Command line over environment over the XDG defaults."""
    own_state = _absolute(state_dir or env.get("BUDDY_STATE_DIR"))
    state = own_state or _xdg(env, "XDG_STATE_HOME", ".local/state") / "buddy"
    return Places(
        config_dir=_xdg(env, "XDG_CONFIG_HOME", ".config") / "buddy",
        state_dir=state,
        socket=_absolute(socket or env.get("BUDDY_SOCKET")) or _default_socket(env, state, own=own_state is not None),
    )


def _default_socket(env: Mapping[str, str], state: Path, *, own: bool) -> Path:
    # A state directory of its own means a daemon of its own: two of them must not meet on one socket.
    runtime = env.get("XDG_RUNTIME_DIR", "")
    if own or not Path(runtime).is_absolute():
        return state / "run" / "buddyd.sock"
    return Path(runtime) / "buddy" / "buddyd.sock"


def _xdg(env: Mapping[str, str], name: str, fallback: str) -> Path:
    # The XDG rules say that a relative value is to be ignored.
    value = env.get(name, "")
    return Path(value) if Path(value).is_absolute() else _home(env) / fallback


def _home(env: Mapping[str, str]) -> Path:
    home = env.get("HOME", "")
    return Path(home) if Path(home).is_absolute() else Path.home()


def _absolute(path: str | Path | None) -> Path | None:
    return Path(path).expanduser().absolute() if path else None
