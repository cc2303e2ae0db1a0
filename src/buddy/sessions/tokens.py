"""Attach tokens: created, checked, revoked.

Invariants: only the hash of a token is stored; a token that another one minted, in its session or in a fork, does not
outlive it, whether that one is revoked or expires; a link is used at most once, however many try at the same time.
"""

import hashlib
import os
from collections.abc import Callable, Sequence

from buddy.approvals.deadlines import Deadline, Moment
from buddy.errors import ProtocolError
from buddy.log.contract import TokenKind, TokenRecord, TokenStore
from buddy.protocol.codes import Role
from buddy.protocol.ids import encode_ulid


class AttachTokens:
    def __init__(self, store: TokenStore, now: Callable[[], Moment]) -> None:
        self.now = now
        self._store = store

    async def mint(
        self,
        session_id: str,
        role: Role,
        expires: Deadline | None = None,
        minted_by: TokenRecord | None = None,
        kind: TokenKind = "token",
    ) -> str:
        """A new attach token."""
        token = new_token()
        ends = [deadline for deadline in (expires, deadline_of(minted_by)) if deadline is not None]
        end = min(ends, key=lambda deadline: deadline.unix_ms, default=None)
        record = TokenRecord(
            token_hash(token),
            session_id,
            role,
            end and end.unix_ms,
            end and end.boot,
            minted_by and minted_by.token_hash,
            kind,
        )
        if not await self._store.put_token(record):
            raise ProtocolError("ATTACH_FORBIDDEN", "the token that this was requested with has been revoked")
        return token

    async def find(self, token: str) -> TokenRecord | None:
        """What a token allows, if it is known and has not expired; a link allows nothing until it is redeemed."""
        known = await self._valid(token)
        return None if known is None or known.kind in ("link", "used_link") else known

    async def redeem(self, token: str) -> TokenRecord | None:
        """The same; a link is used up."""
        known = await self._valid(token)
        if known is None or known.kind == "used_link":
            return None
        return known if known.kind != "link" or await self._store.use_link(known.token_hash) else None

    async def is_known(self, token: TokenRecord) -> bool:
        """Whether a token that was valid has not been revoked since."""
        return await self._store.token(token.token_hash) is not None

    async def revoke(self, hashed: str) -> Sequence[str]:
        """Revoke a token and all that it minted; the hashes of those that were valid until now."""
        return await self._store.revoke(hashed)

    async def _valid(self, token: str) -> TokenRecord | None:
        known = await self._store.token(token_hash(token))
        deadline = deadline_of(known)
        return None if deadline is not None and deadline.is_over(self.now()) else known


def new_token() -> str:
    """The scrubber recognises tokens by their format."""
    # Entirely random: ULIDs of one millisecond are consecutive, so one could be guessed from another.
    return f"att_{encode_ulid(int.from_bytes(os.urandom(16)))}"


def deadline_of(token: TokenRecord | None) -> Deadline | None:
    if token is None or token.expires_at is None:
        return None
    return Deadline(token.expires_at, token.expires_at_boot)


def token_hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
