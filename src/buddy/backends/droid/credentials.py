"""Droid's credentials: a Factory key known to us, or the user's own Droid login.

Invariants: a key is only passed in a child's environment; it is read again each time and never stored.
"""

from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

KEY = "FACTORY_API_KEY"


class _Factory(Struct, frozen=True):
    """`factory.json`, with either spelling of its one entry."""

    api_key: str = ""
    apiKey: str = ""  # noqa: N815 - the spelling in the file


class _Settings(Struct, frozen=True):
    customModels: tuple[dict[str, object], ...] = ()  # noqa: N815 - the spelling in the file


def factory_key(env: Mapping[str, str], *folders: Path) -> str:
    """The key from the environment, else from the first `factory.json` that has one; empty if there is none."""
    if key := env.get(KEY, "").strip():
        return key
    return next((key for folder in folders if (key := _key_in(folder / "factory.json"))), "")


def _key_in(file: Path) -> str:
    try:
        found = msgspec.json.decode(file.read_bytes(), type=_Factory)
    except (OSError, msgspec.MsgspecError):
        return ""
    return (found.api_key or found.apiKey).strip()


def has_own_credentials(env: Mapping[str, str]) -> bool:
    """Whether the user logged in with Droid, or configured a model that needs no login."""
    home = env.get("FACTORY_HOME_OVERRIDE") or env.get("HOME") or Path.home()
    folder = Path(home) / ".factory"
    if any((folder / name).is_file() for name in ("auth.v2.file", "auth.v2.keyring", "auth.encrypted", "auth.json")):
        return True
    try:
        return bool(msgspec.json.decode((folder / "settings.json").read_bytes(), type=_Settings).customModels)
    except (OSError, msgspec.MsgspecError):
        return False
