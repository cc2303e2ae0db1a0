"""Who a peer of the web listener is: the owner, a user, or somebody with a role on one session.

Invariants: a token comes from a header, a subprotocol or a login, never from a URL, and is compared by its hash; a link
is exchanged once; a login ends with the token it was made from.
"""

import hmac
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct

from buddy.daemon.web.logins import LOGIN_SECONDS, OwnerLogin, OwnerLogins
from buddy.errors import LogError, ProtocolError
from buddy.log.contract import TokenRecord
from buddy.sessions.tokens import AttachTokens, token_hash

JWT_DOTS = 2
"""In no other token is a dot."""


class TokenUser(Struct, frozen=True):
    """A user, and until when the token that names them is valid, in Unix seconds."""

    name: str
    expires_at: float


class UserTokens(Protocol):
    """Verifies tokens that name a user."""

    async def verify(self, token: str) -> TokenUser | None: ...


class Identity(Struct, frozen=True):
    """Without a token or a user it is the owner; `login` is the owner's login, if there is one."""

    token: TokenRecord | None = None
    login: OwnerLogin | None = None
    user: TokenUser | None = None

    @property
    def is_owner(self) -> bool:
        return self.token is None and self.user is None

    def describe(self) -> dict[str, object]:
        if self.user is not None:
            expires_at = int(self.user.expires_at * 1000)
            return {"role": "user", "user": self.user.name, "sessionId": None, "expiresAt": expires_at}
        if self.token is None:
            return {"role": "owner", "sessionId": None, "expiresAt": None}
        token = self.token
        return {"role": token.role, "sessionId": token.session_id, "expiresAt": token.expires_at}


class Identities:
    """`disconnect` closes the connections of a token or a login, by its hash; `users` verifies tokens of users."""

    def __init__(
        self,
        tokens: AttachTokens,
        logins: OwnerLogins,
        owner_token: str,
        disconnect: Callable[[str], None],
        users: UserTokens | None = None,
    ) -> None:
        self._users = users
        self._tokens = tokens
        self._logins = logins
        self._owner = token_hash(owner_token)
        self._disconnect = disconnect

    async def by_token(self, token: str) -> Identity | None:
        if self._is_owner(token):
            return Identity()
        if token.count(".") == JWT_DOTS:
            return await self.by_user_token(token)
        known = await self._tokens.redeem(token)
        return known and Identity(known)

    async def by_user_token(self, token: str) -> Identity | None:
        user = await self._users.verify(token) if self._users is not None else None
        return user and Identity(user=user)

    async def by_cookies(self, values: Sequence[str]) -> Identity | None:
        """Any page of this host can add cookies of the same name, so all of them are tried."""
        for value in values:
            if value.count(".") == JWT_DOTS and (user := await self.by_user_token(value)) is not None:
                return user
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
        if token.count(".") == JWT_DOTS:
            user = await self.by_user_token(token)
            return user and (token, user)
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
        """End a login, and disconnect its users; a token that was not made for a login stays valid."""
        if identity.login is not None:
            self._logins.log_out(identity.login)
            self._disconnect(identity.login.login_hash)
        elif identity.token is not None and identity.token.kind == "login":
            for gone in await self._tokens.revoke(identity.token.token_hash):
                self._disconnect(gone)

    async def is_valid(self, identity: Identity) -> bool:
        """Whether nothing has been revoked since, or has expired."""
        if identity.user is not None:
            return time.time() < identity.user.expires_at
        if identity.token is not None:
            return await self._tokens.is_known(identity.token)
        return identity.login is None or not self.is_over(identity.login)

    def is_over(self, login: OwnerLogin) -> bool:
        return not self._logins.is_valid(login)

    def _is_owner(self, token: str) -> bool:
        return hmac.compare_digest(token_hash(token), self._owner)
