"""What a request proves itself with: a key, or the tokens of a login.

What always holds: headers are asked for before every request, so they may change between two; where a server refuses
them, `refused` says whether it is worth trying once more.
"""

from collections.abc import Mapping
from typing import Protocol

from buddy.errors import UserError


class Credentials(Protocol):
    async def headers(self) -> Mapping[str, str]:
        """The headers for the next request; ProviderError where there are none to be had."""
        ...

    async def refused(self) -> bool:
        """The last headers were answered with 401. True: there are newer ones. ProviderError: a person must act."""
        ...


class ApiKey:
    """A key that does not change; an empty one is no header at all."""

    def __init__(self, key: str) -> None:
        self._key = key.strip()
        if not self._key.isascii() or not self._key.isprintable():
            raise UserError(
                "the API key has characters that no HTTP header can carry", hint="copy it again, as one line"
            )

    async def headers(self) -> Mapping[str, str]:
        return {"authorization": f"Bearer {self._key}"} if self._key else {}

    async def refused(self) -> bool:
        return False
