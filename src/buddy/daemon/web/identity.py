"""Who a peer of the web listener is: the owner, or somebody with a role on one session.

Invariants: a token comes from a header, a subprotocol or a login, never from a URL, and is compared by its hash; a link
is exchanged once; a login ends with the token it was made from.
"""

import hmac
from collections.abc import Callable, Sequence

from msgspec import Struct

from buddy.daemon.web.logins import LOGIN_SECONDS, OwnerLogin, OwnerLogins
from buddy.errors import LogError, ProtocolError
from buddy.log.contract import TokenRecord
from buddy.sessions.tokens import AttachTokens, token_hash


class Identity(Struct, frozen=True):
    """Without a token it is the owner; `login` is the owner's login, if there is one."""

    token: TokenRecord | None = None
    login: OwnerLogin | None = None

    def describe(self) -> dict[str, object]:
        if self.token is None:
            return {"role": "owner", "sessionId": None, "expiresAt": None}
        token = self.token
        return {"role": token.role, "sessionId": token.session_id, "expiresAt": token.expires_at}


class Identities:
    """`disconnect` closes the connections of a token or a login, by its hash."""

    def __init__(
        self, tokens: AttachTokens, logins: OwnerLogins, owner_token: str, disconnect: Callable[[str], None]
    ) -> None:
        self._tokens = tokens
        self._logins = logins
        self._owner = token_hash(owner_token)
        self._disconnect = disconnect

    async def by_token(self, token: str) -> Identity | None:
        if self._is_owner(token):
            return Identity()
        known = await self._tokens.redeem(token)
        return known and Identity(known)

    async def by_cookies(self, values: Sequence[str]) -> Identity | None:
        """Any page of this host can add cookies of the same name, so all of them are tried."""
        for value in values:
            login = self._logins.find(value)
            if login is not None:
                return Identity(login=login)
            known = await self._tokens.find(value)
            if known is not None:
                return Identity(known)
        return None

    async def log_in(self, token: str) -> tuple[str, Identity] | None:
        """Exchange a token for a login; the value of its cookie, and who it is."""
        if self._logins.use_link(token) or self._is_owner(token):
            value = self._logins.log_in()
            return value, Identity(login=self._logins.find(value))
        known = await self._tokens.redeem(token)
        if known is None:
            return None
        self._logins.expect_return(LOGIN_SECONDS)
        if known.kind != "link":
            return token, Identity(known)
        try:
            value = await self._tokens.mint(known.session_id, known.role, minted_by=known, kind="login")
        except (ProtocolError, LogError):  # revoked, or deleted with its session, since it was found
            return None
        return value, Identity(known)

    async def log_out(self, identity: Identity) -> None:
        """End a login, and disconnect whoever uses it; a token that was not made for a login stays valid."""
        if identity.login is not None:
            self._logins.log_out(identity.login)
            self._disconnect(identity.login.login_hash)
        elif identity.token is not None and identity.token.kind == "login":
            for gone in await self._tokens.revoke(identity.token.token_hash):
                self._disconnect(gone)

    async def is_valid(self, identity: Identity) -> bool:
        """Whether nothing has been revoked since."""
        if identity.token is not None:
            return await self._tokens.is_known(identity.token)
        return identity.login is None or not self.is_over(identity.login)

    def is_over(self, login: OwnerLogin) -> bool:
        return not self._logins.is_valid(login)

    def _is_owner(self, token: str) -> bool:
        return hmac.compare_digest(token_hash(token), self._owner)
