"""Users by JSON Web Tokens: verified against the published keys of one issuer.

Invariants: only signatures with public keys count; issuer, audience, expiry and subject are required; keys are read
again when a token names an unknown one, but not more often than every few seconds, whatever tokens come.
"""

import asyncio
import json
import logging
import time
import urllib.request
from pathlib import Path
from typing import Any

import jwt
from msgspec.structs import replace

from buddy.config.fleet import AuthSettings
from buddy.daemon.web.identity import TokenUser
from buddy.errors import UserError

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
LEEWAY_SECONDS = 10.0
REFRESH_SECONDS = 300.0
"""How old the keys of a URL may be: the issuer may withdraw one."""
RETRY_SECONDS = 5.0
FETCH_SECONDS = 5.0
MAX_KEYS = 256 * 1024
MAX_SUBJECT = 255

log = logging.getLogger("buddy.web")


class JwtVerifier:
    def __init__(self, settings: AuthSettings) -> None:
        self._settings = settings
        self._keys: dict[str, jwt.PyJWK] = {}
        self._read_at = -REFRESH_SECONDS
        self._stamp: tuple[int, int] | None = None
        self._reading = asyncio.Lock()

    async def verify(self, token: str) -> TokenUser | None:
        """The user of a valid token."""
        try:
            header = jwt.get_unverified_header(token)
            key = await self._key(str(header.get("kid", "")))
            if key is None or header.get("alg") not in ALGORITHMS:
                return None
            claims: dict[str, Any] = jwt.decode(
                token,
                key,
                algorithms=list(ALGORITHMS),
                audience=self._settings.audience,
                issuer=self._settings.issuer,
                leeway=LEEWAY_SECONDS,
                options={"require": ["exp", "iss", "aud", "sub"]},
            )
        except (jwt.PyJWTError, ValueError) as error:
            log.info("refused a token: %s", type(error).__name__)
            return None
        name = claims["sub"]
        if not isinstance(name, str) or not 0 < len(name) <= MAX_SUBJECT or "\0" in name:
            return None
        return TokenUser(name, float(claims["exp"]) + LEEWAY_SECONDS)

    async def _key(self, key_id: str) -> "jwt.PyJWK | None":
        async with self._reading:
            age = time.monotonic() - self._read_at
            if self._has_changed() or age > REFRESH_SECONDS or (self._find(key_id) is None and age > RETRY_SECONDS):
                await self._read()
        return self._find(key_id)

    def _find(self, key_id: str) -> "jwt.PyJWK | None":
        if not key_id and len(self._keys) == 1:
            return next(iter(self._keys.values()))
        return self._keys.get(key_id)

    def _has_changed(self) -> bool:
        """Whether the file is not the one that was read."""
        if not self._settings.jwks_file:
            return False
        try:
            found = Path(self._settings.jwks_file).stat()
        except OSError:
            return False
        stamp, self._stamp = self._stamp, (found.st_mtime_ns, found.st_size)
        return stamp != self._stamp

    async def _read(self) -> None:
        self._read_at = time.monotonic()
        try:
            document = json.loads(await asyncio.to_thread(self._load))
            found = jwt.PyJWKSet.from_dict(document).keys
        except (OSError, ValueError, TypeError, AttributeError, jwt.PyJWTError) as error:
            # The keys that were read before stay: an issuer that is down for a moment logs nobody out.
            log.warning("cannot read the keys of %s: %s", self._settings.issuer, error)
            return
        self._keys = {key.key_id or "": key for key in found if key.algorithm_name in ALGORITHMS}

    def _load(self) -> bytes:
        if self._settings.jwks_file:
            return Path(self._settings.jwks_file).read_bytes()
        request = urllib.request.Request(self._settings.jwks_url, headers={"Accept": "application/json"})  # noqa: S310 - the scheme is checked with the settings
        with urllib.request.urlopen(request, timeout=FETCH_SECONDS) as response:  # noqa: S310 - the same
            return response.read(MAX_KEYS)


def make_verifier(settings: AuthSettings, folder: Path) -> JwtVerifier:
    """A verifier; a relative `jwks_file` starts from the folder of the configuration."""
    if not settings.jwks_file:
        return JwtVerifier(settings)
    path = folder / Path(settings.jwks_file).expanduser()
    if not path.is_file():
        raise UserError(f"no file {path}, which jwks_file in [auth] names")
    return JwtVerifier(replace(settings, jwks_file=str(path)))
