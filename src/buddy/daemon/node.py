"""The name of this daemon among others on the same log."""

import hashlib
import socket
from pathlib import Path

from buddy.config.fleet import NodeSettings
from buddy.config.settings import Config


def node_name(settings: NodeSettings, state_dir: Path) -> str:
    """The configured name; else the host's, with a part that tells several daemons of one host apart for good."""
    if settings.name:
        return settings.name
    return f"{socket.gethostname()}-{hashlib.sha256(str(state_dir.resolve()).encode()).hexdigest()[:4]}"


def has_several_users(config: Config) -> bool:
    return config.auth.mode == "jwt"
