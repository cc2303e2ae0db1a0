"""How a request authenticates: with a key, or with the tokens of a login.

Invariants: headers are requested before every request, so they may change in between; if a server refuses them,
`renew` says whether another attempt is worthwhile.
"""

from collections.abc import Mapping
from typing import Protocol

from buddy.errors import UserError
from buddy.models.apis import access_of


class Credentials(Protocol):
    async def headers(self) -> Mapping[str, str]:
        """The headers for the next request; ProviderError if there are none."""
        ...

    async def renew(self) -> bool:
        """After a 401: whether there are newer headers now; ProviderError if a person must act."""
        ...


class ApiKey:
    """A key that does not change, in the header of its API; an empty one adds none."""

    def __init__(self, key: str, api: str = "") -> None:
        self._key = key.strip()
        self._access = access_of(api)
        if not self._key.isascii() or not self._key.isprintable():
            raise UserError(
                "the API key contains characters that are not allowed in an HTTP header",
                hint="copy it again, as one line",
            )

    async def headers(self) -> Mapping[str, str]:
        return {self._access.key_header: f"{self._access.key_prefix}{self._key}"} if self._key else {}

    async def renew(self) -> bool:
        return False
