"""What one peer may do: everything, or a role on the sessions it has a token for.

Invariant: a role comes from a token, or from having started the session; never from a payload.
"""

import asyncio
from collections.abc import Callable

from buddy.errors import ProtocolError
from buddy.protocol.codes import Role
from buddy.sessions.sessions import Sessions, token_hash

_RANK: dict[Role, int] = {"observer": 0, "approver": 1, "driver": 2}


class Roles:
    """`is_owner`: the peer is trusted with the complete runtime. `expire` is called when a token expires."""

    def __init__(self, sessions: Sessions, *, is_owner: bool, expire: Callable[[], None]) -> None:
        self.is_owner = is_owner
        self._sessions = sessions
        self._expire = expire
        self._roles: dict[str, Role] = {}
        self._tokens: set[str] = set()
        self._expiries: list[asyncio.TimerHandle] = []

    def require(self, session_id: str, role: Role) -> None:
        """Refuse what this peer's role on the session does not allow."""
        have = self._roles.get(session_id)
        rank = _RANK[have] if have else _RANK["driver"] if self.is_owner else -1
        if rank < _RANK[role]:
            raise ProtocolError("ATTACH_FORBIDDEN", f"this needs the {role} role on the session")

    async def admit(self, session_id: str, token: str | None) -> None:
        """Take the role from the token; a token that is presented must be valid."""
        if token is not None:
            role = await self._sessions.role_of(token, session_id)
            if role is None:
                raise ProtocolError("ATTACH_FORBIDDEN", "the attach token is not valid for this session")
            self.grant(session_id, role, token_hash(token), await self._sessions.seconds_left(token))
        elif not self.is_owner and session_id not in self._roles:
            raise ProtocolError("ATTACH_FORBIDDEN", "an attach token is required")

    def grant(
        self, session_id: str, role: Role, token_hash: str | None = None, seconds_left: float | None = None
    ) -> None:
        """Let the peer act in this role, until its token expires."""
        self._roles[session_id] = role
        if token_hash is not None:
            self._tokens.add(token_hash)
        if seconds_left is not None:
            self._expiries.append(asyncio.get_running_loop().call_later(seconds_left, self._expire))

    @property
    def sessions(self) -> tuple[str, ...]:
        """The sessions that this peer has a role on."""
        return tuple(self._roles)

    def uses(self, token_hash: str) -> bool:
        return token_hash in self._tokens

    def close(self) -> None:
        for expiry in self._expiries:
            expiry.cancel()
