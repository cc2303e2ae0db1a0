"""From a resolved profile to its provider and its credentials."""

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from buddy.config.resolve import Resolved
from buddy.config.settings import LOCAL_URL
from buddy.models.contract import Provider
from buddy.models.credentials import ApiKey, Credentials
from buddy.scrub import Scrubber

if TYPE_CHECKING:
    from buddy.models.http.pool import Pool
    from buddy.models.listing import Listing, Listings
    from buddy.models.retry import Patience


class Providers:
    """What the providers of one runtime share: connections, model lists, and how patient each server is treated."""

    def __init__(self, auth_file: Path, scrubber: Scrubber) -> None:
        self._auth_file = auth_file
        self._scrubber = scrubber
        self._patience: dict[tuple[str, float | None], Patience] = {}

    def make(self, resolved: Resolved) -> Provider:
        from buddy.models.retry import Patience

        credentials = find_credentials(resolved, self._auth_file, self._scrubber)
        endpoint = resolved.base_url, resolved.retry_seconds
        patience = self._patience.setdefault(endpoint, Patience(resolved.retry_seconds))
        return make_provider(resolved, credentials, self._listings, self._pool, patience)

    async def list_models(self, resolved: Resolved) -> "Listing":
        """What the server offers, as far as it says so within seconds."""
        from buddy.models.listing import list_models

        return await list_models(
            resolved.base_url, find_credentials(resolved, self._auth_file, self._scrubber), api=resolved.api
        )

    def close(self) -> None:
        if "_pool" in vars(self):
            self._pool.close()

    @cached_property
    def _listings(self) -> "Listings":
        from buddy.models.listing import Listings

        return Listings()

    @cached_property
    def _pool(self) -> "Pool":
        from buddy.models.http.pool import Pool

        return Pool()


def make_provider(
    resolved: Resolved,
    credentials: Credentials,
    listings: "Listings",
    pool: "Pool | None" = None,
    patience: "Patience | None" = None,
) -> Provider:
    """The model of a resolved profile; each wire is imported when it is first needed."""
    from buddy.models.catalog_provider import CatalogProvider
    from buddy.models.retry import RetryingProvider
    from buddy.models.wires import Endpoint, make_wire

    if resolved.api == "scripted":
        from buddy.models.catalog import configured_facts
        from buddy.models.script import load_script
        from buddy.models.scripted import Scripted

        script = load_script(resolved.script) if resolved.script else None
        limit = resolved.context_limit if resolved.context_known else 128_000
        prices = configured_facts(resolved).prices
        if script is None:
            return RetryingProvider(Scripted.echo(prices=prices), patience)
        return RetryingProvider(Scripted(resolved.profile, script, context_limit=limit, prices=prices), patience)
    if resolved.base_url == LOCAL_URL:
        from buddy.models.local import LocalModel

        api = "responses" if resolved.api == "responses" else "completions"
        return RetryingProvider(LocalModel(resolved.profile, api=api, context_limit=resolved.context_limit), patience)
    endpoint = Endpoint(
        resolved.profile,
        resolved.base_url,
        credentials,
        resolved.model,
        resolved.context_limit,
        login=resolved.auth == "login",
    )
    provider = RetryingProvider(make_wire(resolved.api, endpoint, pool), patience)
    return CatalogProvider(provider, resolved, lambda: listings.of(resolved.base_url, credentials, resolved.api))


def find_credentials(resolved: Resolved, auth_file: Path, scrubber: Scrubber) -> Credentials:
    """The profile's key, or its login, whose tokens are registered with the scrubber as they are received."""
    if resolved.auth == "api-key":
        return ApiKey(resolved.api_key, resolved.api)
    from buddy.models.login.bearer import Login
    from buddy.models.login.issuer import find_issuer
    from buddy.models.login.tokens import AuthFile

    issuer = find_issuer(resolved.issuer, resolved.client_id)
    return Login(resolved.profile, issuer, AuthFile(auth_file), learned=scrubber.register)
