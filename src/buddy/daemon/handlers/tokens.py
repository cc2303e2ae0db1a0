"""Requests about a session's attach tokens."""

import asyncio

from buddy.daemon.connection import PeerConnection
from buddy.daemon.dispatch import Handlers, on_record
from buddy.daemon.handlers.host import Host
from buddy.log.contract import Log, SessionRecord, TokenRecord
from buddy.protocol import requests as ask
from buddy.protocol.ids import is_id
from buddy.protocol.shapes import Shape
from buddy.sessions.sessions import Sessions
from buddy.sessions.tokens import token_hash

ID_LENGTH = 16


class TokenRequests:
    def __init__(self, sessions: Sessions, log: Log, host: Host) -> None:
        self._tokens = sessions.tokens
        self._log = log
        self._host = host

    def handlers(self) -> Handlers:
        return {
            "mint_token": on_record(ask.MintToken, self.mint_token),
            "revoke_token": on_record(ask.RevokeToken, self.revoke_token),
            "list_tokens": on_record(ask.ListTokens, self.list_tokens),
        }

    async def mint_token(self, peer: PeerConnection, request: ask.MintToken, record: SessionRecord) -> Shape:
        seconds, session_id = request.expires_in_seconds, record.session_id
        expires = None if seconds is None else self._tokens.now().after(seconds)
        kind = "link" if request.once else "token"
        token = await self._tokens.mint(session_id, request.role, expires, peer.roles.token_of(session_id), kind)
        return ask.MintTokenReply(token)

    async def revoke_token(self, peer: PeerConnection, request: ask.RevokeToken, record: SessionRecord) -> Shape:
        hashed = await self._hash_of(request.attach_token, record.session_id)
        known = await self._log.token(hashed)
        if known is not None and known.session_id != record.session_id:
            peer.roles.require_owner(record.session_id, "revoke a token of another session")
        revoked = await self._tokens.revoke(hashed)
        # After the response: the peer may be revoking its own token.
        for gone in (hashed, *revoked):
            asyncio.get_running_loop().call_soon(self._host.disconnect_token, gone)
        return ask.RevokeTokenReply(bool(revoked))

    async def list_tokens(self, _peer: PeerConnection, _request: ask.ListTokens, record: SessionRecord) -> Shape:
        known = await self._log.tokens(record.session_id)
        return ask.ListTokensReply(tuple(map(_info_of, known)))

    async def _hash_of(self, named: str, session_id: str) -> str:
        """The hash of a token that is named by itself or by its id; empty if there is none."""
        if is_id(named, "att"):
            return token_hash(named)
        known = await self._log.tokens(session_id)
        return next((token.token_hash for token in known if _id_of(token.token_hash) == named), "")


def _id_of(hashed: str) -> str:
    """How a token is listed: the beginning of its hash."""
    return hashed[:ID_LENGTH]


def _info_of(token: TokenRecord) -> ask.TokenInfo:
    minted_by = token.minted_by and _id_of(token.minted_by)
    return ask.TokenInfo(_id_of(token.token_hash), token.role, token.expires_at, token.kind, minted_by)
