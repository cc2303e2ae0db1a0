"""What one peer may do: everything, what a user may with their own sessions, or a role on those it has a token for.

Invariants: a role comes from a token, or from having started the session, never from a payload; it ends with its token,
which is compared with the clocks at every request; to a user, the sessions of others do not exist.
"""

import asyncio
from collections.abc import Callable

from buddy.errors import ProtocolError
from buddy.log.contract import SessionRecord, TokenRecord
from buddy.protocol.codes import Role
from buddy.sessions.tokens import AttachTokens, deadline_of

_RANK: dict[Role, int] = {"observer": 0, "approver": 1, "driver": 2}
COMPARE_SECONDS = 1.0
"""Timers stand still while the machine sleeps, so the clocks are compared this often."""


class Roles:
    """`is_owner`: the peer is trusted with the complete runtime. `expire` is called when a token expires."""

    def __init__(
        self, tokens: AttachTokens, *, is_owner: bool, expire: Callable[[], None], user: str | None = None
    ) -> None:
        self.is_owner = is_owner
        self.user = user
        self._tokens = tokens
        self._expire = expire
        self._roles: dict[str, Role] = {}
        self._by_token: dict[str, TokenRecord] = {}
        self._used: set[str] = set()
        self._timer: asyncio.TimerHandle | None = None

    def require(self, session_id: str, role: Role) -> None:
        """Refuse what this peer's role on the session does not allow."""
        if self._is_over(session_id):
            self._expire()
            raise ProtocolError("ATTACH_FORBIDDEN", "the attach token has expired")
        have = self._roles.get(session_id)
        rank = _RANK[have] if have else _RANK["driver"] if self.is_owner else -1
        if rank < _RANK[role]:
            raise ProtocolError("ATTACH_FORBIDDEN", f"this needs the {role} role on the session")

    def recognise(self, record: SessionRecord) -> bool:
        """Whether this peer may know of the session; a user drives their own."""
        if self.user is None:
            return True
        if record.user == self.user:
            self._roles.setdefault(record.session_id, "driver")
        return record.session_id in self._roles

    def actor(self, session_id: str) -> str:
        """Who this is, for an audit: the user, the owner, or the token that the role comes from."""
        token = self._by_token.get(session_id)
        if self.user is not None:
            return self.user
        return f"token:{token.token_hash[:16]}" if token is not None else "owner" if self.is_owner else "guest"

    def may_see(self, record: SessionRecord) -> bool:
        """Whether a list of sessions shows it to this peer."""
        return self.is_owner or (self.user is not None and record.user == self.user) or record.session_id in self._roles

    def require_owner(self, session_id: str, action: str) -> None:
        """Refuse what reaches beyond one session to everybody but the owner, who may have limited this connection."""
        self.require(session_id, "driver" if self.is_owner else "observer")
        if not self.is_owner:
            raise ProtocolError("ATTACH_FORBIDDEN", f"only the owner of the runtime may {action}")

    async def admit(self, session_id: str, token: str | None) -> None:
        """Take the role from the token; a token that is presented must be valid."""
        if token is not None:
            known = await self._tokens.redeem(token)
            if known is None or known.session_id != session_id:
                raise self._refusal(session_id, "the attach token is not valid for this session")
            self.grant(known)
        elif not self.is_owner and session_id not in self._roles:
            raise self._refusal(session_id, "an attach token is required")
        elif self._is_over(session_id):
            self.require(session_id, "observer")

    def _refusal(self, session_id: str, why: str) -> ProtocolError:
        hidden = self.user is not None and session_id not in self._roles
        return no_session(session_id) if hidden else ProtocolError("ATTACH_FORBIDDEN", why)

    def drive(self, session_id: str) -> None:
        """Let the peer drive a session that it started."""
        self._roles[session_id] = "driver"

    def grant(self, token: TokenRecord) -> None:
        """Let the peer act in the token's role, until the token expires."""
        self._roles[token.session_id] = token.role
        self._by_token[token.session_id] = token
        self._used.add(token.token_hash)
        if token.expires_at is not None and self._timer is None:
            self._compare()

    def inherit(self, child: str, session_id: str) -> None:
        """Let the peer act on a sub-agent's session as it may on that of its parent, and as long."""
        if child in self._roles or session_id not in self._roles:
            return
        self._roles[child] = self._roles[session_id]
        if session_id in self._by_token:
            self._by_token[child] = self._by_token[session_id]

    def has_role(self, session_id: str) -> bool:
        """Whether the peer has a role of its own on a session."""
        return session_id in self._roles

    def token_of(self, session_id: str) -> TokenRecord | None:
        """The token that this peer's role on the session comes from."""
        return self._by_token.get(session_id)

    @property
    def sessions(self) -> tuple[str, ...]:
        """The sessions that this peer has a role on."""
        return tuple(session_id for session_id in self._roles if not self._is_over(session_id))

    @property
    def token_hashes(self) -> set[str]:
        """The attach tokens that this peer's roles come from."""
        return {token.token_hash for token in self._by_token.values()}

    def use_login(self, login_hash: str) -> None:
        """The peer was admitted by a login: it is disconnected with it."""
        self._used.add(login_hash)

    def uses(self, token_hash: str) -> bool:
        return token_hash in self._used

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _is_over(self, session_id: str) -> bool:
        deadline = deadline_of(self._by_token.get(session_id))
        return deadline is not None and deadline.is_over(self._tokens.now())

    def _compare(self) -> None:
        now = self._tokens.now()
        left = [end.seconds_left(now) for token in self._by_token.values() if (end := deadline_of(token))]
        if min(left, default=1.0) <= 0:
            self._expire()
        else:
            soon = min(COMPARE_SECONDS, *left)
            self._timer = asyncio.get_running_loop().call_later(soon, self._compare)


def no_session(session_id: str) -> ProtocolError:
    return ProtocolError("SESSION_NOT_FOUND", f"no session {session_id[:80]!r}")
