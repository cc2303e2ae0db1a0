"""Requests about the attach tokens of a session."""

from typing import Literal

from buddy.protocol.codes import Role
from buddy.protocol.ids import AttachToken
from buddy.protocol.shapes import Count, Seconds, Shape, Text


class MintToken(Shape, frozen=True):
    """`once`: the token is for a link, and can be used one time: to log in, to connect or to attach."""

    role: Role
    expires_in_seconds: Seconds | None = None
    once: bool = False


class MintTokenReply(Shape, frozen=True):
    attach_token: AttachToken


class RevokeToken(Shape, frozen=True):
    """`attach_token` is the token itself, or the id that `list_tokens` gave."""

    attach_token: Text


class RevokeTokenReply(Shape, frozen=True):
    revoked: bool


class ListTokens(Shape, frozen=True):
    pass


class TokenInfo(Shape, frozen=True):
    """A token without itself: `id` is the beginning of its hash, `minted_by` the id of the token it was minted with.

    A `link` can be used once, a `used_link` no longer; a `login` is what a browser got for one.
    """

    id: str
    role: Role
    expires_at: Count | None = None
    kind: Literal["token", "link", "used_link", "login"] = "token"
    minted_by: str | None = None


class ListTokensReply(Shape, frozen=True):
    tokens: tuple[TokenInfo, ...]
