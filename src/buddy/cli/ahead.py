"""What the first request will wait for is begun before everything else that can be done meanwhile."""

from collections.abc import Mapping
from contextlib import suppress

from buddy.config.resolve import resolve_profile
from buddy.config.settings import Config
from buddy.errors import UserError
from buddy.models.http.tls import preload_certificates


def expect_model(config: Config, env: Mapping[str, str], profile: str | None = None) -> None:
    """Reading the certificates that a system trusts takes as long as a fifth of a start, on another core."""
    with suppress(UserError):  # which is told by whoever needs the model
        preload_certificates(resolve_profile(config, env, profile).base_url)
