"""Attach tokens: created, checked, revoked.

Invariants: only the hash of a token is stored; a token that another one minted, in its session or in a fork, does not
outlive it, whether that one is revoked or expires.
"""

import hashlib
import os
from collections.abc import Callable, Sequence

from buddy.approvals.deadlines import Deadline, Moment
from buddy.errors import ProtocolError
from buddy.log.contract import TokenRecord, TokenStore
from buddy.protocol.codes import Role
from buddy.protocol.ids import encode_ulid


class AttachTokens:
    def __init__(self, store: TokenStore, now: Callable[[], Moment]) -> None:
        self.now = now
        self._store = store

    async def mint(
        self, session_id: str, role: Role, expires: Deadline | None = None, minted_by: TokenRecord | None = None
    ) -> str:
        """A new attach token. The scrubber recognises tokens by their format."""
        # Entirely random: ULIDs of one millisecond are consecutive, so one could be guessed from another.
        token = f"att_{encode_ulid(int.from_bytes(os.urandom(16)))}"
        ends = [deadline for deadline in (expires, deadline_of(minted_by)) if deadline is not None]
        end = min(ends, key=lambda deadline: deadline.unix_ms, default=None)
        record = TokenRecord(
            token_hash(token),
            session_id,
            role,
            end and end.unix_ms,
            end and end.boot,
            minted_by and minted_by.token_hash,
        )
        if not await self._store.put_token(record):
            raise ProtocolError("ATTACH_FORBIDDEN", "the token that this was requested with has been revoked")
        return token

    async def find(self, token: str) -> TokenRecord | None:
        """What a token allows, if it is known and has not expired."""
        known = await self._store.token(token_hash(token))
        deadline = deadline_of(known)
        return None if deadline is not None and deadline.is_over(self.now()) else known

    async def revoke(self, hashed: str) -> Sequence[str]:
        """Revoke a token and all that it minted; the hashes of those that were valid until now."""
        return await self._store.revoke(hashed)


def deadline_of(token: TokenRecord | None) -> Deadline | None:
    if token is None or token.expires_at is None:
        return None
    return Deadline(token.expires_at, token.expires_at_boot)


def token_hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
