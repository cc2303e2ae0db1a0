"""Buddy's directories and socket, resolved once from the environment and the command line.

Invariants: every path is absolute, nothing is created here, and an empty variable counts as unset.
"""

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from buddy.config.paths import config_path, socket_path, state_path


class Places(Struct, frozen=True):
    """The configuration directory, the state directory and the daemon's socket."""

    config_dir: Path
    state_dir: Path
    socket: Path


def find_places(
    env: Mapping[str, str], state_dir: str | Path | None = None, socket: str | Path | None = None
) -> Places:
    """Command line over environment over the XDG defaults."""
    state, own = str(state_dir or ""), str(socket or "")
    return Places(
        config_dir=Path(config_path(env)),
        state_dir=Path(state_path(env, state)),
        socket=Path(socket_path(env, state, own)),
    )
