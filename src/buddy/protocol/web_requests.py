"""Requests about the web listener, for the owner on the Unix socket: open it, link to it, log everybody out."""

from buddy.protocol.shapes import Count, Seconds, Shape, Text


class OpenWeb(Shape, frozen=True):
    """`listen` is `[HOST:]PORT`; absent, the address that is open, was open before, or the first free one."""

    listen: Text | None = None
    tls_cert: Text | None = None
    tls_key: Text | None = None
    allow_remote: bool = False


class OpenWebReply(Shape, frozen=True):
    url: str


class MintWebLink(Shape, frozen=True):
    """`page`: also a local file that redirects a browser, so that no process is started with the link."""

    expires_in_seconds: Seconds = 600
    page: bool = False


class MintWebLinkReply(Shape, frozen=True):
    url: str
    expires_at: Count
    page: str | None = None


class RevokeWebLogins(Shape, frozen=True):
    pass


class RevokeWebLoginsReply(Shape, frozen=True):
    revoked: Count
