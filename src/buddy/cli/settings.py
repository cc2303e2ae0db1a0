"""Where a command finds its state and its configuration. Modules are imported on first use."""

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from buddy.cli.options import Options
from buddy.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Callable

    from buddy.config.load import ConfigFile
    from buddy.config.places import Places
    from buddy.config.settings import Config


def places_of(options: Options) -> "Places":
    from buddy.config.places import find_places

    return find_places(os.environ, options.state_dir, options.socket)


def read_config(options: Options) -> "Config":
    from pathlib import Path

    from buddy.config.load import load_config

    return load_config(os.environ, Path(options.config) if options.config else None, places_of(options))


def config_finder(options: Options) -> "Callable[[], ConfigFile | None]":
    """Finds the configuration file again, as `read_config` finds it."""
    from functools import partial
    from pathlib import Path

    from buddy.config.load import find_config

    # A copy: looking up a name in `os.environ` encodes it each time, and a daemon looks for its file often.
    return partial(find_config, dict(os.environ), Path(options.config) if options.config else None, places_of(options))


def preload_certificates(config: "Config", profile: str | None = None) -> None:
    """Read the system's certificates in another thread: it takes a fifth of a start, and the model needs them next."""
    from buddy.config.resolve import resolve_profile
    from buddy.models.http.tls import preload_certificates as preload

    with suppress(UserError):  # reported when the model is needed
        preload(resolve_profile(config, os.environ, profile).base_url)
